// How long a worker waits for a result before it doubts that its packet arrived: the estimator of RFC 6298 (smoothed
// round trip plus four deviations) and Karn's rule (a pass that was sent again gives no sample). What follows from the
// doubt depends on what has come meanwhile, and is Worker's to say.
#pragma once

#include <algorithm>
#include <cstdint>

#include "rdma_engine/base/time.h"

namespace jaxina {

struct TimerLimits {
  Nanoseconds initial = 20'000'000;
  Nanoseconds minimum = 1'000'000;    // SwitchML's fixed timeout
  Nanoseconds maximum = 200'000'000;  // so that a long stall is noticed soon after it ends
  // A pass is taken for lost, before its timeout, when the result of one sent this many passes later has come. TCP and
  // ATP use 3; but here a worker that has lost a packet sends its later passes in another order than the rest, whose
  // own passes then only look overtaken.
  std::uint32_t reordering = 32;
};

class RetransmissionTimer {
 public:
  explicit RetransmissionTimer(TimerLimits limits = {}) : limits_(limits), timeout_(limits.initial) {}

  void sample(Nanoseconds round_trip) {
    if (smoothed_ == 0) {
      smoothed_ = round_trip;
      deviation_ = round_trip / 2;
    } else {
      const Nanoseconds error = round_trip > smoothed_ ? round_trip - smoothed_ : smoothed_ - round_trip;
      deviation_ += (error - deviation_) / 4;
      smoothed_ += (round_trip - smoothed_) / 8;
    }
    timeout_ = std::clamp(smoothed_ + 4 * deviation_, limits_.minimum, limits_.maximum);
  }

  Nanoseconds timeout() const { return timeout_; }
  Nanoseconds maximum() const { return limits_.maximum; }
  std::uint32_t reordering() const { return limits_.reordering; }

 private:
  TimerLimits limits_;
  Nanoseconds timeout_;
  Nanoseconds smoothed_ = 0;
  Nanoseconds deviation_ = 0;
};

}  // namespace jaxina
