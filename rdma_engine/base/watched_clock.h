// WatchedClock: a clock that hardly goes on while nobody looks at it. A deadline of it does not pass while this process
// is stopped, for example by Ctrl-Z.
#pragma once

#include <algorithm>
#include <optional>

#include "rdma_engine/base/time.h"

namespace jaxina {

class WatchedClock {
 public:
  // `longest` is the most that the time between two looks counts. Look more often than that while a deadline runs.
  explicit WatchedClock(Nanoseconds longest) : longest_(longest) {}

  // Returns the clock's new reading. A `now` before the last one counts as the last one.
  Nanoseconds look(Nanoseconds now) {
    const Nanoseconds last = last_.value_or(now);
    reading_ += std::clamp(now - last, Nanoseconds{0}, longest_);
    last_ = std::max(now, last);
    return reading_;
  }
  // What the last look returned.
  Nanoseconds reading() const { return reading_; }

 private:
  Nanoseconds longest_;
  std::optional<Nanoseconds> last_;
  Nanoseconds reading_ = 0;
};

}  // namespace jaxina
