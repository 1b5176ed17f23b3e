// RingSession: a worker's message session in a ring. It decides what an arriving message means. A reliable connection
// delivers each message once and in order, so what is not the awaited result is not late: the job ends, and this says
// why. It has no clock and never waits.
//
// With a switch, there are two causes, and each message says what the switch has done (messages/ring_immediate.h):
//   * The switch passes on what it should sum, because it has lost the job. If a rack's switch does, sums have too few
//     contributions.
//   * Workers contradict each other. If their messages have one size, the switch sums them, and the fingerprint or the
//     check is wrong. Otherwise it ends the job, and says so from then on.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "rdma_engine/messages/message_session.h"
#include "rdma_engine/transport/rc/ring_memory.h"
#include "rdma_engine/transport/rc/ring_probe.h"

namespace jaxina::rc {

class RingSession {
 public:
  using Arrival = roce::MessageQueues::Arrival;

  // The session outlives this object. `config` is the session's. With a probe, a switch on the way adds; without one,
  // the workers do.
  RingSession(roce::MessageSession& session, const roce::MessageSessionConfig& config, std::optional<RingProbe> probe)
      : session_(session),
        workers_(config.shape.workers()),
        worker_(config.worker),
        previous_((config.worker + config.shape.workers() - 1) % config.shape.workers()),
        probe_(probe),
        awaits_(config.shape.slots()) {}

  // Whether the probe is not over. It begins when there is something to sum, and until it is over there are no passes.
  bool is_probing() const { return probe_ && !probe_->is_over(); }

  // As of roce::MessageSession.
  Status post_next(Nanoseconds now, std::optional<Pass>& posted);
  // Takes a message that has arrived. A failure is final.
  Status on_arrival(const Arrival& arrival, Nanoseconds now);

 private:
  Status contradicted(const Arrival& arrival, bool is_awaited) const;
  std::string how_many(std::uint32_t count) const;
  Status too_few(const std::string& how) const;
  Status not_summed() const;

  roce::MessageSession& session_;
  std::uint32_t workers_, worker_, previous_;
  std::optional<RingProbe> probe_;
  std::vector<bool> awaits_;  // per slot: whether its result is to come
};

}  // namespace jaxina::rc
