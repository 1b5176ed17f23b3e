#include "rdma_engine/transport/rc/ring_session.h"

#include <string>

#include "rdma_engine/aggregator/mismatch.h"

namespace jaxina::rc {
namespace {

using Kind = roce::MessageSession::Kind;

Status contradiction(const std::string& seen) {
  return {ErrorCode::kMismatch, seen + ": workers sum different things in the same call" + std::string(kRunTheSame)};
}

}  // namespace

Status RingSession::post_next(Nanoseconds now, std::optional<Pass>& posted) {
  Status status = session_.post_next(now, posted);
  if (posted) awaits_[posted->slot] = true;
  return status;
}

Status RingSession::on_arrival(const Arrival& arrival, Nanoseconds now) {
  const std::size_t slot = arrival.queue;
  if (slot >= awaits_.size()) return contradiction("a message came round the ring that is not of this job");
  const bool is_awaited = awaits_[slot];
  awaits_[slot] = false;
  if (!is_plain_) {
    switch (roce::ring_kind_of(arrival.immediate)) {
      case roce::RingKind::kSummed: break;
      case roce::RingKind::kContradicted: return contradicted(arrival, is_awaited);
      default: return not_summed("as it was sent");
    }
  }
  if (!is_awaited) return contradiction("a sum came round the ring to which this worker has not contributed");
  const Kind kind = session_.on_arrival(arrival, now).kind;
  if (kind == Kind::kResult) return {};
  if (kind == Kind::kOtherPass) return mismatch_between(previous_, worker_);
  return contradiction("a sum came round the ring that does not hold every worker's contribution once");
}

// What comes is the previous worker's own message. If it is of another pass than this worker's, these two are known.
Status RingSession::contradicted(const Arrival& arrival, bool is_awaited) const {
  if (is_awaited && !session_.is_of_latest_pass(arrival)) return mismatch_between(previous_, worker_);
  return contradiction("the switch says that the workers' messages do not fit together");
}

Status RingSession::not_summed(const std::string& how) const {
  return {ErrorCode::kNotSummed,
          "worker " + std::to_string(previous_) + "'s data came " + how +
              ": the switch passes on what it should sum. It has lost the job, for example because it was restarted. "
              "Start the job again; the switch's log may say more"};
}

}  // namespace jaxina::rc
