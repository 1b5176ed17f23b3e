// Whether the switch can be reached, and what its final replies mean, as errors a user can act on.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "rdma_engine/errors.h"
#include "rdma_engine/wire/packet.h"
#include "rdma_engine/worker/retransmission_timer.h"

namespace jaxina {

class SwitchContact {
 public:
  explicit SwitchContact(std::string where) : where_(std::move(where)) {}

  void sent(bool retransmission);
  // A packet of the job came from the switch.
  void answered();
  // An ICMP error came: no such port, host or network.
  void refused();

  // kSwitchUnreachable once errors, or silence, have gone on for long enough. To be called often while packets are
  // in flight: time that passed unwatched, because this process was stopped, hardly counts.
  Status check(Nanoseconds now);

  Status refusal(wire::Refusal refusal) const;
  Status abort(std::uint8_t code, std::span<const std::uint8_t> sentence) const;

 private:
  std::string where_;
  std::uint32_t unanswered_ = 0;  // retransmissions since the last answer
  std::uint32_t refusals_ = 0;    // since the last answer
  std::optional<Nanoseconds> last_check_;
  Nanoseconds watched_ = 0;                               // a clock that stands still between checks that are far apart
  Nanoseconds first_unanswered_ = 0, first_refusal_ = 0;  // by that clock
};

}  // namespace jaxina
