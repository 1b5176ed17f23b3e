// Tests tensors on devices whose words have 8 or 16 bits. Their sums have the bits of the same tensors in host memory,
// in the same processes and over the same transport: whether sums are packed or not, with one device or several,
// nearest and at random, with NaN and Inf.
#include <gtest/gtest.h>

#include <functional>

#include "tests/native/device_transports.h"

namespace jaxina {
namespace {

using numerics::Rounding;
using numerics::WireWord;
using testing::FakeDevice;
using testing::WordsMoved;
using namespace testing::nodes;

// Operands whose floats are of one magnitude within a block, so that few of their narrow words are 0. Without `finite`
// some are NaN or Inf.
std::vector<Operands> ordinary_operands(std::uint32_t devices, std::size_t count, std::uint64_t seed, bool finite) {
  std::vector<Operands> result = operands(devices, count, seed, finite);
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  const auto value = [&](std::size_t i) {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    if (!finite && random() % 50 == 0) return random() % 3 == 0 ? kInfinity - kInfinity : kInfinity;
    if (!finite && random() % 50 == 0) return -kInfinity;
    return std::ldexp(normal(random), static_cast<int>(i / kBlock % 9) - 4);
  };
  for (Operands& mine : result) {
    for (std::size_t t = 0; t < std::size(kTypes); ++t) {
      if (!numerics::may_be_narrow(kTypes[t])) continue;
      for (std::size_t i = 0; i < count; ++i) {
        const float x = value(i);
        numerics::Float16 half;
        numerics::Bfloat16 brain;
        numerics::narrow(x, half);
        numerics::narrow(x, brain);
        const void* from = kTypes[t] == ElementType::kFloat32   ? static_cast<const void*>(&x)
                           : kTypes[t] == ElementType::kFloat16 ? static_cast<const void*>(&half)
                                                                : static_cast<const void*>(&brain);
        std::memcpy(&mine.in[t][i * size_of(kTypes[t])], from, size_of(kTypes[t]));
      }
    }
  }
  return result;
}

void submit_all(Cluster& cluster, std::size_t devices, const std::function<Collective(std::size_t)>& collective) {
  std::vector<std::future<Status>> done;
  for (std::uint32_t d = 0; d < devices; ++d) done.push_back(cluster.submit(d, collective(d)));
  for (auto& future : done) {
    const Status status = outcome(future);
    ASSERT_TRUE(status.ok()) << status.text();
  }
}

struct Case {
  Processes processes;
  std::size_t count;
  WireWord word;
  Rounding rounding;
  bool finite, in_place;
};

std::string name_of(const Case& c) {
  return std::to_string(c.processes.size()) + " processes of " + std::to_string(c.processes[0]) + " devices, " +
         std::to_string(c.count) + " elements in " + std::to_string(numerics::bits_of(c.word)) + " bits" +
         (c.rounding.stochastic ? ", stochastic" : "") + (c.finite ? "" : ", not finite") +
         (c.in_place ? ", in place" : "");
}

// Sums on hosts and on devices. `configs` is called for each, since a job ends with its processes. Returns the hosts'
// results.
std::vector<Operands> expect_bits_of_hosts(const Case& c, const std::function<std::vector<GroupConfig>()>& configs) {
  SCOPED_TRACE(name_of(c));
  std::vector<Operands> host = ordinary_operands(total(c.processes), c.count, c.count + c.finite, c.finite);
  std::vector<Operands> mine = host;
  {
    Cluster cluster(configs());
    submit_all(cluster, host.size(),
               [&](std::size_t d) { return narrowed(host[d].collective(c.count, c.in_place), c.word, c.rounding); });
  }
  std::vector<Resident> residents = on_devices(mine, c.in_place);
  Cluster cluster(configs());
  submit_all(cluster, mine.size(),
             [&](std::size_t d) { return narrowed(residents[d].collective(c.count), c.word, c.rounding); });
  read_back(residents, mine);
  for (std::size_t d = 0; d < mine.size(); ++d) expect_equal({mine[d]}, host[d], c.count);
  return host;
}

// Calls body(case) for widths, roundings, and operands.
void for_each_case(const Processes& processes, std::size_t count, const std::function<void(const Case&)>& body) {
  for (const WireWord word : {WireWord::kInt16, WireWord::kInt8}) {
    for (const Rounding rounding : {Rounding{}, Rounding{true, 0x123456789abcdef}}) {
      for (const bool finite : {true, false}) {
        body({processes, count, word, rounding, finite, rounding.stochastic == finite});
      }
    }
  }
}

constexpr std::uint32_t kFloat32 = 0;  // its place in kTypes

// {1} and {2} are summed within one process, the others in shared memory: sums are not packed.
TEST(NarrowDevices, InSharedMemoryTheBitsAreThoseOfHostTensors) {
  for (const Processes& processes :
       {Processes{1}, Processes{2}, Processes{1, 1}, Processes{2, 2}, Processes{3, 3, 3}}) {
    for (const std::size_t count : {1u, 777u, 5000u}) {
      std::vector<Bytes> different;
      for_each_case(processes, count, [&](const Case& c) {
        const std::vector<Operands> sums = expect_bits_of_hosts(c, [&] { return configs_for(c.processes); });
        if (c.finite) different.push_back(sums[0].out[kFloat32]);
      });
      // Width and rounding change the sums. With one element, they may be exact.
      for (std::size_t i = 0; count > 1 && i < different.size(); ++i) {
        for (std::size_t j = 0; j < i; ++j) EXPECT_NE(different[i], different[j]) << i << " " << j;
      }
    }
  }
}

TEST(NarrowDevices, InDatagramsTheBitsAreThoseOfHostTensors) {
  for (const Processes& processes : {Processes{1, 1}, Processes{2, 2}, Processes{3, 3, 3}}) {
    for (const std::size_t count : {1u, 5000u}) {
      for_each_case(processes, count, [&](const Case& c) {
        std::unique_ptr<SoftwareSwitch> software_switch;
        expect_bits_of_hosts(c, [&] {
          software_switch.reset(new SoftwareSwitch({.ports = {}, .threads = 1}));
          software_switch->add_job(job_for(c.processes));
          return udp_configs(c.processes, {software_switch->ports()[0]});
        });
      });
    }
  }
}

TEST(NarrowDevices, InMessagesTheBitsAreThoseOfHostTensors) {
  for (const Processes& processes : {Processes{1, 1}, Processes{2, 2}}) {
    const double loss = processes[0] == 1 ? 0.01 : 0;
    for_each_case(processes, 2000, [&](const Case& c) {
      std::unique_ptr<RoceSwitch> roce_switch;
      expect_bits_of_hosts(c, [&] {
        roce_switch.reset(new RoceSwitch({.port = 0, .loss = loss, .loss_seed = 3}));
        roce_switch->add_job(job_for(c.processes));
        return roce_configs(c.processes, *roce_switch, loss, false);
      });
    });
  }
}

// What one device of two processes moves for float32 tensors of whole chunks, in 32-bit words.
WordsMoved words_of_one_sum(const std::vector<GroupConfig>& configs, WireWord word, std::size_t count) {
  Many many(2);
  Cluster cluster(configs);
  submit_all(cluster, 2, [&](std::size_t d) {
    const auto device = static_cast<std::uint32_t>(d);
    return narrowed(many.collective(device, many.tensor(device, count, 1), count), word, {});
  });
  return many.devices[0]->words_moved();
}

TEST(NarrowDevices, MoveAHalfOrAQuarterOfTheBytes) {
  const Processes processes{1, 1};
  constexpr std::size_t count = 32 * kBlock;
  for (const WireWord word : {WireWord::kInt16, WireWord::kInt8}) {
    const std::size_t packed = numerics::packed_size(count, word);
    const WordsMoved embedded = words_of_one_sum(configs_for(processes), word, count);
    EXPECT_EQ(embedded.written_allocated, packed);
    EXPECT_EQ(embedded.read_shared, count) << "sums in shared memory have 32 bits";

    SoftwareSwitch software_switch({.ports = {}, .threads = 1});
    software_switch.add_job(job_for(processes));
    const WordsMoved udp = words_of_one_sum(udp_configs(processes, {software_switch.ports()[0]}), word, count);
    EXPECT_EQ(udp.written_allocated, packed);
    EXPECT_EQ(udp.read_allocated, packed);

    RoceSwitch roce_switch({.port = 0});
    roce_switch.add_job(job_for(processes));
    const WordsMoved roce = words_of_one_sum(roce_configs(processes, roce_switch, 0, false), word, count);
    EXPECT_EQ(roce.written_shared, packed) << "in the messages";
    EXPECT_EQ(roce.written_allocated, 0u);
    EXPECT_EQ(roce.read_allocated, packed);
  }
}

// One chunk each of collectives with other widths, roundings and seeds. They share the devices' batches.
TEST(NarrowDevices, CollectivesOfManyKindsShareBatches) {
  constexpr std::size_t kRounds = 64, kCount = 3 * kBlock + 5;
  const auto values_of = [](std::size_t r, std::size_t d) {
    return ordinary_operands(1, kCount, 2 * r + d, r % 5 != 0)[0].in[kFloat32];
  };
  const auto collective_of = [](std::size_t r, std::byte* tensor, TensorDevice* device) {
    const WireWord words[] = {WireWord::kInt8, WireWord::kInt32, WireWord::kInt16};
    Collective plain{{{ElementType::kFloat32, kCount, tensor, tensor}}};
    plain.device = device;
    return narrowed(std::move(plain), words[r % 3], {r % 2 == 0, r});
  };
  Cluster on_host(configs_for({1, 1})), on_devices(configs_for({1, 1}));
  std::vector<Bytes> host(2 * kRounds);
  std::vector<std::byte*> tensors;
  FakeDevice devices[] = {FakeDevice(1), FakeDevice(2)};
  for (FakeDevice& device : devices) device.hold();
  std::vector<std::future<Status>> done;
  for (std::size_t r = 0; r < kRounds; ++r) {
    for (std::uint32_t d = 0; d < 2; ++d) {
      Bytes& mine = host[2 * r + d];
      mine = values_of(r, d);
      tensors.push_back(devices[d].tensor(mine.size()));
      devices[d].write(tensors.back(), mine);
      done.push_back(on_host.submit(d, collective_of(r, mine.data(), nullptr)));
      done.push_back(on_devices.submit(d, collective_of(r, tensors.back(), &devices[d])));
    }
  }
  for (FakeDevice& device : devices) device.release();
  for (auto& future : done) {
    const Status status = outcome(future);
    ASSERT_TRUE(status.ok()) << status.text();
  }
  for (std::size_t i = 0; i < host.size(); ++i) {
    ASSERT_EQ(devices[i % 2].read(tensors[i], host[i].size()), host[i]) << "collective " << i / 2;
  }
}

}  // namespace
}  // namespace jaxina
