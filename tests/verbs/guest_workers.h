// Workers of a job in the guest. They use Soft-RoCE through libibverbs, or a socket in the other namespace.
#pragma once

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "rdma_engine/switch/roce_switch.h"
#include "rdma_engine/transport/roce/rdma_endpoint.h"
#include "rdma_engine/transport/roce/socket_queue_pairs.h"
#include "rdma_engine/transport/verbs/verbs_queue_pairs.h"
#include "tests/verbs/namespaces.h"

namespace jaxina::guest {

inline constexpr char kHere[] = "10.9.0.1", kPeer[] = "10.9.0.2";
inline constexpr std::uint32_t kBlockSize = 256;

// Makes a job. It has so few slots that the emulated machine answers before the workers take their messages for lost.
inline JobSpec job_of(std::uint32_t workers, std::uint32_t job, std::uint32_t slots = 4,
                      std::uint32_t blocks_per_chunk = 16) {
  return {.job = job,
          .secret = 0xfeedface + job,
          .shape = JobShape({.devices = workers,
                             .workers = workers,
                             .slots = slots,
                             .block_size = kBlockSize,
                             .blocks_per_chunk = blocks_per_chunk})};
}

inline Membership member_of(const JobSpec& job, std::uint32_t worker) {
  return {.shape = job.shape, .worker = worker, .job = job.job, .secret = job.secret};
}

enum class Kind { kVerbs, kSocket };

inline std::unique_ptr<roce::QueuePairs> make_pairs(Kind kind, std::size_t queues, std::size_t send,
                                                    std::size_t receive, std::uint32_t first_psn = 7,
                                                    std::size_t mtu = 1024) {
  if (kind == Kind::kVerbs) {
    return std::make_unique<verbs::VerbsQueuePairs>(
        verbs::VerbsOptions{.device = {}, .address = kHere, .mtu = mtu, .first_psn = first_psn}, queues, send, receive);
  }
  return in_peer([&] {
    roce::SocketOptions options;
    options.host = kPeer;
    options.mtu = mtu;
    options.first_psn = first_psn;
    return std::make_unique<roce::SocketQueuePairs>(options, queues, send, receive);
  });
}

inline std::unique_ptr<Endpoint> join(RoceSwitch& roce_switch, const JobSpec& job, std::uint32_t worker, Kind kind,
                                      std::uint32_t first_psn = 7, std::size_t mtu = 1024) {
  return roce::make_rdma_endpoint(
      member_of(job, worker),
      [&](std::size_t queues, std::size_t send, std::size_t receive) {
        return make_pairs(kind, queues, send, receive, first_psn, mtu);
      },
      [&](const roce::ConnectionEnd& local) { return roce_switch.connect(job.job, worker, local); });
}

// Drives the endpoint until everything submitted is complete.
inline Status run_to_end(Endpoint& endpoint, std::chrono::seconds bound = std::chrono::seconds(150)) {
  const auto deadline = std::chrono::steady_clock::now() + bound;
  while (!endpoint.worker().idle()) {
    if (Status status = endpoint.progress(100'000'000); !status.ok()) return status;
    endpoint.worker().pop_completed();
    if (std::chrono::steady_clock::now() > deadline)
      return {ErrorCode::kTimeout, "not complete within the test's bound"};
  }
  return {};
}

}  // namespace jaxina::guest
