// The nodes of a group's processes, all in one process, and operands of every type.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "rdma_engine/engine/node.h"
#include "tests/native/udp_fixture.h"

namespace jaxina::testing::nodes {

using Bytes = std::vector<std::byte>;

inline constexpr ElementType kTypes[] = {ElementType::kFloat32,  ElementType::kInt32,   ElementType::kFloat16,
                                         ElementType::kBfloat16, ElementType::kFloat64, ElementType::kInt8,
                                         ElementType::kInt16,    ElementType::kInt64};
inline constexpr std::uint32_t kBlock = 64;

inline std::size_t size_of(ElementType type) { return numerics::element_codec(type).size; }

// Returns a tensor of random bits, that is, of values of every magnitude. Floats include NaN and Inf, unless `finite`
// halves the exponents.
inline Bytes random_tensor(ElementType type, std::size_t count, std::uint64_t seed, bool finite) {
  std::mt19937_64 random(seed);
  Bytes bytes(count * size_of(type));
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  const bool is_float = numerics::element_codec(type).is_float;
  for (std::size_t i = size_of(type) - 1; finite && is_float && i < bytes.size(); i += size_of(type)) {
    bytes[i] &= std::byte{0xbf};
  }
  return bytes;
}

// One device's contribution to a collective of all types, and its results.
struct Operands {
  std::vector<Bytes> in, out;
  Collective collective(std::size_t count, bool in_place) {
    Collective result;
    for (std::size_t t = 0; t < std::size(kTypes); ++t) {
      if (in_place) out[t] = in[t];
      result.tensors.push_back({kTypes[t], count, in_place ? out[t].data() : in[t].data(), out[t].data()});
    }
    return result;
  }
};

inline std::vector<Operands> operands(std::uint32_t devices, std::size_t count, std::uint64_t seed, bool finite) {
  std::vector<Operands> result(devices);
  for (std::uint32_t d = 0; d < devices; ++d) {
    for (const ElementType type : kTypes) {
      result[d].in.push_back(random_tensor(type, count, seed + 100 * d + static_cast<std::uint64_t>(type), finite));
      result[d].out.emplace_back(count * size_of(type), std::byte{0x5a});
    }
  }
  return result;
}

using Processes = std::vector<std::uint32_t>;  // how many devices each process has

inline std::uint32_t total(const Processes& processes) {
  std::uint32_t sum = 0;
  for (const std::uint32_t devices : processes) sum += devices;
  return sum;
}

inline JobSpec job_for(const Processes& processes, bool whole_chunks = false) {
  return {.job = 9,
          .secret = 77,
          .shape = JobShape({.devices = total(processes),
                             .workers = static_cast<std::uint32_t>(processes.size()),
                             .slots = 8,
                             .block_size = kBlock,
                             .blocks_per_chunk = 4,
                             .whole_chunks = whole_chunks})};
}

inline GroupConfig config_for(const Processes& processes, std::uint32_t worker) {
  static std::atomic<std::uint64_t> next{0};
  Membership member = member_of(job_for(processes), worker);
  member.join_timeout_s = 30;
  GroupConfig config{.member = member, .local = {}, .transport = EmbeddedConfig{}, .collective_timeout_s = 60};
  for (std::uint32_t w = 0, first = 0; w < processes.size(); first += processes[w++]) {
    for (std::uint32_t d = 0; w == worker && d < processes[w]; ++d) config.local.push_back(first + d);
  }
  if (worker == 0) ++next;
  config.transport = EmbeddedConfig{"jaxina-node-test-" + std::to_string(getpid()) + "-" + std::to_string(next)};
  return config;
}

inline std::vector<GroupConfig> configs_for(const Processes& processes) {
  std::vector<GroupConfig> configs;
  for (std::uint32_t w = 0; w < processes.size(); ++w) configs.push_back(config_for(processes, w));
  return configs;
}

inline std::unique_ptr<Endpoint> join(const GroupConfig& config) {
  return std::visit([&](const auto& transport) { return make_endpoint(config.member, transport); }, config.transport);
}

// The nodes of a group's processes, all in this process.
class Cluster {
 public:
  explicit Cluster(
      std::vector<GroupConfig> configs, const std::function<void(const Status&)>& ended = [](const Status&) {})
      : configs_(std::move(configs)) {
    Group group;
    for (std::uint32_t d = 0; d < configs_.front().member.shape.devices(); ++d) group.push_back(d);
    for (const GroupConfig& config : configs_) {
      nodes_.push_back(std::make_unique<Node>(
          group, [config](const Group&) { return config; },
          [ended](const Group&, const Status& reason) { ended(reason); }));
    }
  }
  ~Cluster() {
    for (const auto& node : nodes_) node->close();
  }

  std::future<Status> submit(std::uint32_t device, Collective collective) {
    auto promise = std::make_shared<std::promise<Status>>();
    std::future<Status> future = promise->get_future();
    for (std::size_t w = 0; w < nodes_.size(); ++w) {
      const auto& local = configs_[w].local;
      if (std::find(local.begin(), local.end(), device) == local.end()) continue;
      nodes_[w]->submit(device, std::move(collective), [promise](Status s) { promise->set_value(std::move(s)); });
      break;
    }
    return future;
  }
  Node& node(std::size_t worker) { return *nodes_[worker]; }

 private:
  std::vector<GroupConfig> configs_;
  std::vector<std::unique_ptr<Node>> nodes_;
};

inline Status outcome(std::future<Status>& future) {
  if (future.wait_for(std::chrono::seconds(60)) != std::future_status::ready)
    return {ErrorCode::kTimeout, "test deadline"};
  return future.get();
}

// Sums the devices' operands on the cluster, `rounds` times from the same operands, into their results.
inline void sum(Cluster& cluster, std::vector<Operands>& devices, std::size_t count, bool in_place, int rounds = 1) {
  for (int round = 0; round < rounds; ++round) {
    std::vector<std::future<Status>> done;
    for (std::uint32_t d = 0; d < devices.size(); ++d)
      done.push_back(cluster.submit(d, devices[d].collective(count, in_place)));
    for (auto& future : done) {
      const Status status = outcome(future);
      ASSERT_TRUE(status.ok()) << status.text();
    }
  }
}

inline bool is_nan(ElementType type, const std::byte* x) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, x, size_of(type));
  switch (type) {
    case ElementType::kFloat32: return (bits & 0x7fffffff) > 0x7f800000;
    case ElementType::kFloat64: return (bits & 0x7fffffffffffffff) > 0x7ff0000000000000;
    case ElementType::kFloat16: return (bits & 0x7fff) > 0x7c00;
    case ElementType::kBfloat16: return (bits & 0x7fff) > 0x7f80;
    default: return false;
  }
}

// Compares the results. Any NaN equals any other, as IEEE addition does not say which one it gives.
inline void expect_equal(const std::vector<Operands>& got, const Operands& expected, std::size_t count) {
  for (std::size_t d = 0; d < got.size(); ++d) {
    for (std::size_t t = 0; t < std::size(kTypes); ++t) {
      const std::size_t size = size_of(kTypes[t]);
      for (std::size_t i = 0; i < count; ++i) {
        const std::byte *a = &got[d].out[t][i * size], *b = &expected.out[t][i * size];
        ASSERT_TRUE(std::equal(a, a + size, b) || (is_nan(kTypes[t], a) && is_nan(kTypes[t], b)))
            << "device " << d << " type " << numerics::to_string(kTypes[t]) << " element " << i;
      }
    }
  }
}

// Sums with each device in a process of its own, and returns the result.
inline Operands flat(std::vector<Operands> devices, std::size_t count) {
  Cluster cluster(configs_for(Processes(devices.size(), 1)));
  sum(cluster, devices, count, false);
  return devices.front();
}

inline std::vector<GroupConfig> udp_configs(const Processes& processes, const std::vector<std::uint16_t>& ports) {
  std::vector<GroupConfig> configs = configs_for(processes);
  for (GroupConfig& config : configs) {
    config.transport =
        UdpConfig{.addresses = ports_of("127.0.0.1", ports), .loss = {.share = 0, .seed = 5 + config.member.worker}};
  }
  return configs;
}

}  // namespace jaxina::testing::nodes
