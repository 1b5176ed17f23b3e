// What the tests of the udp transport and of the software switch share: a switch with a job, workers on threads.
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

inline JobSpec job_of(std::uint32_t workers, std::uint32_t job = 7) {
  return {.job = job,
          .secret = 0x1234'5678'9abc'def0u + job,
          .workers = workers,
          .slots = 32,
          .block_size = 256,
          .blocks_per_chunk = 4};
}

inline EndpointConfig config_for(const JobSpec& job, std::uint32_t worker, std::vector<std::uint16_t> ports) {
  EndpointConfig config;
  config.transport = "udp";
  config.devices = job.workers;
  config.workers = job.workers;
  config.worker = worker;
  config.job = job.job;
  config.secret = job.secret;
  config.slots = job.slots;
  config.block_size = job.block_size;
  config.blocks_per_chunk = job.blocks_per_chunk;
  config.address = "127.0.0.1";
  config.ports = std::move(ports);
  config.loss_seed = 1000 + worker;
  return config;
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

// Runs body(worker, endpoint) on a thread per worker, all joined at the end.
template <typename Body>
void with_workers(const std::vector<EndpointConfig>& configs, Body body) {
  std::vector<std::thread> threads;
  for (std::uint32_t w = 0; w < configs.size(); ++w) {
    threads.emplace_back([&, w] {
      const std::unique_ptr<Endpoint> endpoint = make_udp_endpoint(configs[w]);
      body(w, *endpoint);
    });
  }
  for (std::thread& t : threads) t.join();
}

inline std::vector<EndpointConfig> configs_for(const JobSpec& job, const std::vector<std::uint16_t>& ports) {
  std::vector<EndpointConfig> configs;
  for (std::uint32_t w = 0; w < job.workers; ++w) configs.push_back(config_for(job, w, ports));
  return configs;
}

// One float32 collective of random gradients; sum() runs it on the workers, expect_exact() compares every worker's
// result bit for bit with the reference.
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

inline std::uint64_t count_of(const Aggregator::Rejects& rejects, Reject reject) {
  return rejects[static_cast<std::size_t>(reject)];
}

}  // namespace jaxina::testing
