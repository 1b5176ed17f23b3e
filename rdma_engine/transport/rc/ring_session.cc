#include "rdma_engine/transport/rc/ring_session.h"

#include <string>

#include "rdma_engine/aggregator/mismatch.h"

namespace jaxina::rc {
namespace {

using Kind = roce::MessageSession::Kind;

Status contradiction(const std::string& seen) {
  return {ErrorCode::kMismatch, seen + " workers sum different things in the same call" + std::string(kRunTheSame)};
}

}  // namespace

Status RingSession::post_next(Nanoseconds now, std::optional<Pass>& posted) {
  posted.reset();
  if (is_probing()) {
    const Worker& worker = session_.worker();
    if (worker.has_ready() || worker.awaits_devices()) probe_->post();
    return {};
  }
  Status status = session_.post_next(now, posted);
  if (posted) awaits_[posted->slot] = true;
  return status;
}

Status RingSession::on_arrival(const Arrival& arrival, Nanoseconds now) {
  const std::size_t slot = arrival.queue;
  if (slot >= awaits_.size()) return contradiction("a message came round the ring that is not of this job:");
  const bool is_awaited = is_probing() ? probe_->is_under_way() : awaits_[slot];
  awaits_[slot] = false;
  if (probe_) {
    switch (roce::ring_kind_of(arrival.immediate)) {
      case roce::RingKind::kSummed: break;
      case roce::RingKind::kContradicted: return contradicted(arrival, is_awaited);
      default: return not_summed();
    }
  }
  if (probe_ && !is_awaited) return too_few("comes before this worker has contributed");
  if (is_probing()) {
    const std::optional<std::uint32_t> count = probe_->take(arrival);
    if (count == workers_) return {};
    return count ? too_few(how_many(*count)) : contradiction("a probe came back with a wrong sum:");
  }
  if (!is_awaited) return contradiction("a sum came round the ring to which this worker has not contributed:");
  const Kind kind = session_.on_arrival(arrival, now).kind;
  if (kind == Kind::kResult) return {};
  if (kind == Kind::kOtherPass) return mismatch_between(previous_, worker_);
  if (const auto count = probe_ ? session_.contributions(arrival) : std::nullopt; count) {
    return too_few(how_many(*count));
  }
  // A switch that forgets its rings in the middle of a message can leave a wrong sum with a right end, if packets
  // overtake each other.
  return contradiction(std::string("a sum came round the ring that does not hold every worker's contribution once") +
                       (probe_ ? ". Either the switch lost the job in the middle of it, or" : ":"));
}

// What comes is the previous worker's own message. If it is of another pass than this worker's, these two are known.
Status RingSession::contradicted(const Arrival& arrival, bool is_awaited) const {
  if (is_awaited && !is_probing() && !session_.is_of_latest_pass(arrival)) return mismatch_between(previous_, worker_);
  return contradiction("the switch says that the workers' messages do not fit together:");
}

std::string RingSession::how_many(std::uint32_t count) const {
  return "holds the contributions of " + std::to_string(count) + " of " + std::to_string(workers_) + " workers";
}

Status RingSession::too_few(const std::string& how) const {
  return {
      ErrorCode::kNotSummed,
      "a sum came that " + how +
          ": the switch of a rack does not sum, because it has lost the job, or because not all traffic of its rack "
          "passes it. Start the job again; the switches' logs may say more"};
}

Status RingSession::not_summed() const {
  const std::string from = "worker " + std::to_string(previous_);
  if (is_probing()) {
    return {
        ErrorCode::kNotSummed,
        "a probe of " + from +
            " came as it was sent: the switch does not sum what the workers of this job send each other. Check that "
            "all their traffic passes the interfaces of `jaxina switch --transparent`, or leave JAXINA_SWITCH out, "
            "so that the workers add"};
  }
  return {
      ErrorCode::kNotSummed,
      "data of " + from +
          " came as it was sent: the switch passes on what it should sum. It has lost the job, for example because "
          "it was restarted, or the traffic no longer passes it. Start the job again; the switch's log may say more"};
}

}  // namespace jaxina::rc
