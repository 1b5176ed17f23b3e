// Operands that lie on fake devices, and helpers that sum them.
#pragma once

#include "tests/native/fake_device.h"
#include "tests/native/node_fixture.h"

namespace jaxina::testing::nodes {

// One device, with its operands in its memory.
struct Resident {
  std::unique_ptr<FakeDevice> device;
  std::vector<std::byte*> in, out;

  Collective collective(std::size_t count) const {
    Collective result;
    result.device = device.get();
    for (std::size_t t = 0; t < std::size(kTypes); ++t) result.tensors.push_back({kTypes[t], count, in[t], out[t]});
    return result;
  }
};

inline std::vector<Resident> on_devices(const std::vector<Operands>& operands, bool in_place) {
  std::vector<Resident> result;
  for (const Operands& mine : operands) {
    Resident& resident = result.emplace_back();
    resident.device = std::make_unique<FakeDevice>(6 + result.size());
    for (const Bytes& bytes : mine.in) {
      std::byte* const in = resident.device->tensor(bytes.size());
      resident.device->write(in, bytes);
      resident.in.push_back(in);
      resident.out.push_back(in_place ? in : resident.device->tensor(bytes.size()));
    }
  }
  return result;
}

inline void read_back(std::vector<Resident>& devices, std::vector<Operands>& operands) {
  for (std::size_t d = 0; d < devices.size(); ++d) {
    for (std::size_t t = 0; t < std::size(kTypes); ++t) {
      operands[d].out[t] = devices[d].device->read(devices[d].out[t], operands[d].in[t].size());
    }
  }
}

// Sums on the cluster what lies on these devices, and copies the results into `operands`.
inline void sum_residents(Cluster& cluster, std::vector<Resident>& devices, std::vector<Operands>& operands,
                          std::size_t count) {
  std::vector<std::future<Status>> done;
  for (std::uint32_t d = 0; d < devices.size(); ++d) done.push_back(cluster.submit(d, devices[d].collective(count)));
  for (auto& future : done) {
    const Status status = outcome(future);
    ASSERT_TRUE(status.ok()) << status.text();
  }
  read_back(devices, operands);
}

inline void sum_on_devices(Cluster& cluster, std::vector<Operands>& operands, std::size_t count, bool in_place) {
  std::vector<Resident> devices = on_devices(operands, in_place);
  sum_residents(cluster, devices, operands, count);
}

// n fake devices, for many float32 tensors.
struct Many {
  explicit Many(std::uint32_t n) {
    for (std::uint32_t d = 0; d < n; ++d) devices.push_back(std::make_unique<FakeDevice>(d));
  }
  std::byte* tensor(std::uint32_t device, std::size_t count, float value) {
    const std::vector<float> values(count, value);
    const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
    std::byte* const address = devices[device]->tensor(4 * count);
    devices[device]->write(address, {bytes, bytes + 4 * count});
    return address;
  }
  Collective collective(std::uint32_t device, std::byte* tensor, std::size_t count) {
    Collective result{{{ElementType::kFloat32, count, tensor, tensor}}};
    result.device = devices[device].get();
    return result;
  }
  float first(std::uint32_t device, std::byte* tensor) {
    float value;
    std::memcpy(&value, devices[device]->read(tensor, 4).data(), 4);
    return value;
  }
  std::vector<std::unique_ptr<FakeDevice>> devices;
};

}  // namespace jaxina::testing::nodes
