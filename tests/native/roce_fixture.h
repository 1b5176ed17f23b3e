// Workers over RoCE, and a software switch in the same process.
#pragma once

#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "rdma_engine/switch/roce_switch.h"
#include "rdma_engine/transport/roce/rdma_endpoint.h"
#include "rdma_engine/transport/roce/socket_queue_pairs.h"
#include "tests/native/udp_fixture.h"

namespace jaxina::testing {

// Returns the places of all workers in a job.
inline std::vector<Membership> members_of(const JobSpec& job) {
  std::vector<Membership> members;
  for (std::uint32_t w = 0; w < job.shape.workers(); ++w) members.push_back(member_of(job, w));
  return members;
}

// Makes a worker's endpoint. It connects by calling the switch's method, as the control service does.
inline std::unique_ptr<Endpoint> roce_endpoint(RoceSwitch& roce_switch, const Membership& member,
                                               roce::SocketOptions options = {}) {
  if (options.host.empty()) options.host = "127.0.0.1";
  options.loss_seed = 1000 + member.worker;
  return roce::make_rdma_endpoint(
      member,
      [&](std::size_t queues, std::size_t send_bytes, std::size_t receive_bytes) {
        return std::make_unique<roce::SocketQueuePairs>(options, queues, send_bytes, receive_bytes);
      },
      [&](const roce::ConnectionEnd& local) { return roce_switch.connect(member.job, member.worker, local); });
}

template <typename Body>
void with_roce_workers(RoceSwitch& roce_switch, const std::vector<Membership>& members,
                       const roce::SocketOptions& options, Body body) {
  std::vector<std::thread> threads;
  for (std::uint32_t w = 0; w < members.size(); ++w) {
    threads.emplace_back([&, w] {
      const std::unique_ptr<Endpoint> endpoint = roce_endpoint(roce_switch, members[w], options);
      body(w, *endpoint);
    });
  }
  for (std::thread& t : threads) t.join();
}

}  // namespace jaxina::testing
