// RetransmissionTimer: how long a worker waits for a result before it suspects a loss. It uses the estimator of RFC
// 6298 (smoothed round trip plus four deviations) and Karn's rule (a pass that was sent again gives no sample).
// LossControl decides what follows from the suspicion.
#pragma once

#include <algorithm>
#include <cstdint>

#include "rdma_engine/base/time.h"

namespace jaxina {

struct TimerLimits {
  Nanoseconds initial = 20'000'000;
  Nanoseconds minimum = 1'000'000;    // the fixed timeout of SwitchML
  Nanoseconds maximum = 200'000'000;  // limited, so that the end of a long stall is noticed soon
  // A pass counts as lost before its timeout if a result has come of a pass that was sent this many passes later. TCP
  // and ATP use 3. That is too few here: a worker that has lost a packet sends its later passes in a different order
  // than the other workers, so the others' passes look overtaken without being lost.
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
