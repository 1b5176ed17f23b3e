#include "rdma_engine/datagrams/switch_contact.h"

#include <utility>

#include "rdma_engine/base/utf8.h"

namespace jaxina {
namespace {

// A switch that is starting or restarting refuses packets for a moment. Retransmissions come at least every 200 ms, so
// a second of refusals is several of them.
constexpr Nanoseconds kRefusedFor = 1'000'000'000;
constexpr std::uint32_t kMinRefusals = 3;
// A live switch answers every retransmission. Ten seconds have at least 50 of them. If half of the packets are lost in
// each direction, 50 in a row stay unanswered once in about two million times.
constexpr Nanoseconds kSilentFor = 10'000'000'000;
// Two or three retransmissions. That is too few to end a job, but enough to say what a job waits for when it ends.
constexpr Nanoseconds kMissingFor = 500'000'000;
// The most time that one interval between two checks counts: a little more than the 200 ms between retransmissions.
constexpr Nanoseconds kLongestWatch = 250'000'000;

}  // namespace

SwitchContact::SwitchContact(std::string where, std::optional<std::uint32_t> worker)
    : where_(std::move(where)), worker_(worker), clock_(kLongestWatch) {}

void SwitchContact::sent(bool retransmission) {
  if (!retransmission) return;
  if (unanswered_++ == 0) first_unanswered_ = clock_.reading();
}

void SwitchContact::answered() {
  unanswered_ = 0;
  refusals_ = 0;
}

void SwitchContact::refused() {
  if (refusals_++ == 0) first_refusal_ = clock_.reading();
}

Status SwitchContact::check(Nanoseconds now) {
  const Nanoseconds watched = clock_.look(now);
  if (refusals_ >= kMinRefusals && watched - first_refusal_ >= kRefusedFor) return gone();
  if (unanswered_ > 0 && watched - first_unanswered_ >= kSilentFor) return silent();
  return {};
}

std::optional<std::uint32_t> SwitchContact::silent_worker() const {
  return unanswered_ > 0 && clock_.reading() - first_unanswered_ >= kMissingFor ? worker_ : std::nullopt;
}

Status SwitchContact::gone() const {
  if (worker_) {
    return {ErrorCode::kWorkerLost, "worker " + std::to_string(*worker_) + " is lost: packets to its server at " +
                                        where_ +
                                        " cannot be delivered; see that worker's output, and check the network"};
  }
  return {ErrorCode::kSwitchUnreachable,
          "no switch listens at " + where_ + "; check that it runs and that the address is right"};
}

Status SwitchContact::silent() const {
  const std::string words = " has not answered for " + std::to_string(kSilentFor / 1'000'000'000) +
                            " s; check that its host is up and that no firewall drops its UDP ports";
  if (worker_) {
    return {ErrorCode::kWorkerLost,
            "worker " + std::to_string(*worker_) + " is out of reach: its server at " + where_ + words};
  }
  return {ErrorCode::kSwitchUnreachable, "the switch at " + where_ + words};
}

Status SwitchContact::forgotten() const {
  if (worker_) {
    return {ErrorCode::kWorkerLost, "worker " + std::to_string(*worker_) + " has left: its server at " + where_ +
                                        " does not have this job any more; see that worker's output"};
  }
  return {ErrorCode::kJobRejected, "the switch at " + where_ +
                                       " has lost this job's state (restarted?); start the workers again, so that "
                                       "they join a new job"};
}

Status SwitchContact::refusal(wire::Refusal refusal) const {
  switch (refusal) {
    case wire::Refusal::kUnknownJob:
    case wire::Refusal::kAhead: return forgotten();
  }
  return {ErrorCode::kJobRejected, where_ +
                                       " refuses this job with an unknown reason; it may be of another version of "
                                       "jaxina"};
}

Status SwitchContact::abort(std::uint8_t code, std::span<const std::uint8_t> sentence) const {
  const bool known =
      code > static_cast<std::uint8_t>(ErrorCode::kOk) && code <= static_cast<std::uint8_t>(kLastErrorCode);
  return {known ? static_cast<ErrorCode>(code) : ErrorCode::kJobRejected,
          as_utf8({reinterpret_cast<const char*>(sentence.data()), sentence.size()})};
}

}  // namespace jaxina
