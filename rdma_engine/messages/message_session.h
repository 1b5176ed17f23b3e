// MessageSession: a worker that speaks RDMA messages. It writes the passes that the worker state machine wants to send,
// checks what was written into its memory, and passes that on. It drives queue pairs but has no clock and never waits.
// So sockets, libibverbs and the simulator all use it. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "rdma_engine/messages/pass_message.h"
#include "rdma_engine/messages/queue_pairs.h"
#include "rdma_engine/shape/job_shape.h"
#include "rdma_engine/worker/worker.h"

namespace jaxina::roce {

struct MessageSessionConfig {
  JobShape shape;
  std::uint32_t job = 0;
  std::uint64_t secret = 0;
  TimerLimits timer;
  std::uint32_t worker = 0;  // this worker's index
  Summed summed = Summed::kByMessage;
};

class MessageSession {
 public:
  // The queues must be as many, and have as much memory, as MessageLayout says. They must outlive the session.
  MessageSession(const MessageSessionConfig& config, MessageQueues& pairs);

  Worker& worker() { return worker_; }
  const Worker& worker() const { return worker_; }

  // Posts the next pass, if there is one, and stores it in `posted`. A failure is final.
  Status post_next(Nanoseconds now, std::optional<Pass>& posted);

  // What an arrived message was.
  enum class Kind : std::uint8_t {
    kResult,     // a pass is complete
    kOtherPass,  // a result that is not that of the slot's latest pass: an earlier one's, or one of something else
    kRejected,   // a damaged result, or a notice that is none
    kPending,    // the payload is the bitmap of the workers seen
    kRefused,    // final: header.code is a wire::Refusal
    kAborted,    // final: header.code is an ErrorCode, the payload is a sentence
  };
  struct Arrived {
    Kind kind = Kind::kRejected;
    wire::Header header = {};                    // only for notices
    std::span<const std::uint8_t> payload = {};  // only for notices
  };
  Arrived on_arrival(const MessageQueues::Arrival& arrival, Nanoseconds now);
  // Whether an arrived message has the size, and what its immediate tells of the fingerprint, of the slot's latest
  // pass.
  bool is_of_latest_pass(const MessageQueues::Arrival& arrival) const;
  // How many workers' contributions such a message holds; nothing if it is no sum of contributions to the pass.
  std::optional<std::uint32_t> contributions(const MessageQueues::Arrival& arrival);

 private:
  Arrived on_result(const MessageQueues::Arrival& arrival, Nanoseconds now);
  Arrived on_notice(const MessageQueues::Arrival& arrival, Nanoseconds now);
  std::uint8_t* message(std::size_t slot);
  const std::uint8_t* result_at(const Pass& pass) const;
  void write_check(const Pass& pass, std::uint8_t* message);
  bool copy_checked(const Pass& pass, Result& result);

  MessageSessionConfig config_;
  MessageLayout layout_;
  MessageQueues& pairs_;
  Worker worker_;
  std::vector<Pass> passes_;               // per slot: the latest pass sent
  std::vector<std::uint32_t> unanswered_;  // per slot: retransmissions since the last notice of the switch
  // A copy of one result that nothing can overwrite: words in host order, and exponents.
  std::vector<std::uint32_t> copy_;
  std::vector<std::uint8_t> exponents_;
};

}  // namespace jaxina::roce
