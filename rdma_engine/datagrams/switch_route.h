// SwitchRoute: decides whether a worker sends a pass through a switch that may combine it, or directly to its server.
// The switch may be gone, or may have lost the job. Then every pass would wait for two timeouts before it goes
// directly. So after a number of them, passes go directly at once, and now and then one tries the switch again.
#pragma once

#include <algorithm>
#include <cstdint>

#include "rdma_engine/base/time.h"
#include "rdma_engine/wire/packet.h"

namespace jaxina {

class SwitchRoute {
 public:
  // The transmission of a pass that was sent `sent_before` times. kDirect goes to the server.
  wire::Transmission next(std::uint32_t sent_before, Nanoseconds now) {
    if (sent_before > 0) ++unanswered_;
    if (sent_before >= kDirect) return wire::Transmission::kDirect;
    if (unanswered_ < kMostUnanswered) return static_cast<wire::Transmission>(sent_before);
    if (sent_before > 0 || now < next_try_) return wire::Transmission::kDirect;
    next_try_ = now + kTryEvery;
    return wire::Transmission::kFirst;
  }
  // A packet of the job has come from the switch.
  void on_answer() { unanswered_ = 0; }
  // The switch does not know the job.
  void on_refusal() { unanswered_ = std::max(unanswered_, kMostUnanswered); }

 private:
  static constexpr auto kDirect = static_cast<std::uint32_t>(wire::Transmission::kDirect);
  static constexpr std::uint32_t kMostUnanswered = 32;
  static constexpr Nanoseconds kTryEvery = 20'000'000;

  std::uint32_t unanswered_ = 0;  // passes sent again since the switch's last answer
  Nanoseconds next_try_ = 0;
};

}  // namespace jaxina
