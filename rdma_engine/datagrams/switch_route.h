// SwitchRoute: decides whether a worker sends a pass through a switch that may combine it, or directly to its server.
//
// The switch may be gone, or may have lost the job. Then every pass would wait for two timeouts before it goes
// directly. So after a number of passes without an answer of the switch, passes go directly at once. A few passes still
// try the switch. They are the same ones at all workers, because a switch answers only when it has a pass of all of
// them.
#pragma once

#include <algorithm>
#include <cstdint>

#include "rdma_engine/wire/packet.h"
#include "rdma_engine/worker/pass.h"

namespace jaxina {

class SwitchRoute {
 public:
  // How to send the pass. kDirect goes to the server, everything else to the switch.
  wire::Transmission next(const Pass& pass) {
    if (pass.retransmission()) ++unanswered_;
    if (pass.sent_before >= kDirect) return wire::Transmission::kDirect;
    const bool through_switch = unanswered_ < kMostUnanswered || tries(pass);
    return through_switch ? static_cast<wire::Transmission>(pass.sent_before) : wire::Transmission::kDirect;
  }
  // A packet of the job has come from the switch.
  void on_answer() { unanswered_ = 0; }
  // The switch does not know the job.
  void on_refusal() { unanswered_ = std::max(unanswered_, kMostUnanswered); }

 private:
  static constexpr auto kDirect = static_cast<std::uint32_t>(wire::Transmission::kDirect);
  static constexpr std::uint32_t kMostUnanswered = 32;

  // One pass of 256, by a multiplicative hash.
  static bool tries(const Pass& pass) { return (pass.slot * 0x9e3779b1u + pass.epoch * 0x85ebca6bu) >> 24 == 0; }

  std::uint32_t unanswered_ = 0;  // passes sent again since the switch's last answer
};

}  // namespace jaxina
