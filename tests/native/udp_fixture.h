// Helpers for tests of the udp transport and of the software switch: a switch with a job, and workers on threads.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "rdma_engine/switch/software_switch.h"
#include "rdma_engine/transport/endpoint.h"
#include "tests/native/reference.h"

namespace jaxina::testing {

// The numbers of a job's shape that tests change.
struct Size {
  std::uint32_t slots = 32;
  std::uint32_t blocks_per_chunk = 4;
  bool whole_chunks = false;
};

inline JobSpec job_of(std::uint32_t workers, std::uint32_t job = 7, const Size& size = {}) {
  return {.job = job,
          .secret = 0x1234'5678'9abc'def0u + job,
          .shape = JobShape({.devices = workers,
                             .workers = workers,
                             .slots = size.slots,
                             .block_size = 256,
                             .blocks_per_chunk = size.blocks_per_chunk,
                             .whole_chunks = size.whole_chunks})};
}

inline Membership member_of(const JobSpec& job, std::uint32_t worker) {
  return {.shape = job.shape, .worker = worker, .job = job.job, .secret = job.secret};
}

// A worker's place in a job, and the configuration of its transport.
struct UdpMember {
  Membership member;
  UdpConfig udp;
  std::unique_ptr<Endpoint> join() const { return make_endpoint(member, udp); }
};

inline UdpMember config_for(const JobSpec& job, std::uint32_t worker, const std::vector<std::uint16_t>& ports) {
  return {member_of(job, worker),
          {.addresses = ports_of("127.0.0.1", ports), .loss = {.share = 0, .seed = 1000 + worker}}};
}

// Drives the endpoint until everything submitted is complete.
inline Status run_to_end(Endpoint& endpoint, std::chrono::seconds bound = std::chrono::seconds(60)) {
  const auto deadline = std::chrono::steady_clock::now() + bound;
  while (!endpoint.worker().idle()) {
    if (Status status = endpoint.progress(50'000'000); !status.ok()) return status;
    endpoint.worker().pop_completed();
    if (std::chrono::steady_clock::now() > deadline) return {ErrorCode::kTimeout, "test deadline"};
  }
  return {};
}

// Runs body(worker, endpoint) on one thread for each worker, and joins them.
template <typename Body>
void with_workers(const std::vector<UdpMember>& configs, Body body) {
  std::vector<std::thread> threads;
  for (std::uint32_t w = 0; w < configs.size(); ++w) {
    threads.emplace_back([&, w] {
      const std::unique_ptr<Endpoint> endpoint = configs[w].join();
      body(w, *endpoint);
    });
  }
  for (std::thread& t : threads) t.join();
}

inline std::vector<UdpMember> configs_for(const JobSpec& job, const std::vector<std::uint16_t>& ports) {
  std::vector<UdpMember> configs;
  for (std::uint32_t w = 0; w < job.shape.workers(); ++w) configs.push_back(config_for(job, w, ports));
  return configs;
}

// One float32 collective of random gradients. The workers sum it; expect_exact() compares every worker's result bit for
// bit with the reference.
class FloatSum {
 public:
  FloatSum(std::uint32_t workers, std::size_t count, std::uint64_t seed) : outputs_(workers) {
    for (std::uint32_t w = 0; w < workers; ++w) inputs_.push_back(random_gradient(count, seed + w));
    for (auto& output : outputs_) output.assign(count, -7);
  }

  void submit(std::uint32_t worker, Endpoint& endpoint) { submit(worker, endpoint.worker()); }
  void submit(std::uint32_t index, Worker& worker) {
    worker.submit({{{ElementType::kFloat32, inputs_[index].size(), inputs_[index].data(), outputs_[index].data()}}});
  }

  void expect_exact(std::size_t block_size = 256) const {
    const std::vector<float> expected = all_reduce_reference(inputs_, block_size);
    for (std::size_t w = 0; w < outputs_.size(); ++w) {
      for (std::size_t i = 0; i < expected.size(); ++i) {
        ASSERT_TRUE(same(outputs_[w][i], expected[i]))
            << "worker " << w << " element " << i << ": " << outputs_[w][i] << " instead of " << expected[i];
      }
    }
  }

 private:
  std::vector<std::vector<float>> inputs_, outputs_;
};

// All workers of a job sum tensors of several sizes, `rounds` times each. The sums must be exact.
inline void sum_exactly(const JobSpec& job, const std::vector<UdpMember>& configs, int rounds = 1) {
  std::vector<FloatSum> sums;
  for (int round = 0; round < rounds; ++round) {
    for (const std::size_t count : {1u, 257u, 5000u, 100'000u}) sums.emplace_back(job.shape.workers(), count, count);
  }
  with_workers(configs, [&](std::uint32_t w, Endpoint& endpoint) {
    for (FloatSum& sum : sums) {
      sum.submit(w, endpoint);
      const Status status = run_to_end(endpoint);
      ASSERT_TRUE(status.ok()) << status.text();
    }
  });
  for (const FloatSum& sum : sums) sum.expect_exact();
}

}  // namespace jaxina::testing
