// How long a worker waits for a result before it sends again: the estimator of RFC 6298 (smoothed round trip plus four
// deviations), exponential back-off per slot, and Karn's rule (a retransmitted pass gives no sample).
#pragma once

#include <algorithm>
#include <cstdint>

namespace jaxina {

using Nanoseconds = std::int64_t;  // durations, and points of a clock that starts anywhere

struct TimerLimits {
  Nanoseconds initial = 20'000'000;
  Nanoseconds minimum = 1'000'000;    // SwitchML's fixed timeout
  Nanoseconds maximum = 200'000'000;  // so that a long stall is noticed soon after it ends
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

  // The timeout after `attempts` earlier transmissions of the same pass.
  Nanoseconds timeout(std::uint32_t attempts) const {
    return std::min(timeout_ << std::min<std::uint32_t>(attempts, 16), limits_.maximum);
  }
  Nanoseconds smoothed() const { return smoothed_; }

 private:
  TimerLimits limits_;
  Nanoseconds timeout_;
  Nanoseconds smoothed_ = 0;
  Nanoseconds deviation_ = 0;
};

}  // namespace jaxina
