// RingSession: a worker's message session in a ring. It decides what an arriving message means. A reliable connection
// delivers each message once and in order, so what is not the awaited result is not late: the job ends, and this says
// why. It has no clock and never waits.
//
// With a switch, there are two causes, and each message says what the switch has done (messages/ring_immediate.h):
//   * The switch passes on what it should sum, because it has lost the job.
//   * Workers contradict each other. If their messages have one size, the switch sums them, and the fingerprint or the
//     check is wrong. Otherwise it ends the job, and says so from then on.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "rdma_engine/messages/message_session.h"
#include "rdma_engine/transport/rc/ring_memory.h"

namespace jaxina::rc {

class RingSession {
 public:
  using Arrival = roce::MessageQueues::Arrival;

  // The session outlives this object. `is_plain`: no switch on the way adds, so the workers do.
  RingSession(roce::MessageSession& session, const JobShape& shape, std::uint32_t worker, bool is_plain)
      : session_(session),
        workers_(shape.workers()),
        worker_(worker),
        previous_((worker + workers_ - 1) % workers_),
        is_plain_(is_plain),
        awaits_(shape.slots()) {}

  // As of roce::MessageSession.
  Status post_next(Nanoseconds now, std::optional<Pass>& posted);
  // Takes a message that has arrived. A failure is final.
  Status on_arrival(const Arrival& arrival, Nanoseconds now);

 private:
  Status contradicted(const Arrival& arrival, bool is_awaited) const;
  Status not_summed(const std::string& how) const;

  roce::MessageSession& session_;
  std::uint32_t workers_, worker_, previous_;
  bool is_plain_;
  std::vector<bool> awaits_;  // per slot: whether its result is to come
};

}  // namespace jaxina::rc
