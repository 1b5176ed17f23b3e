// How many passes a worker has in flight at most. The pool is the bound; below it the window follows the measured
// bandwidth-delay product, so that one pool serves fast networks and does not overflow the queues of slow ones.
//
// It begins small, because a whole pool sent at once, by all workers at once, is a burst that a queue may have no room
// for, and grows by one with every result: it doubles in a round trip, as in TCP's slow start. A round trip whose
// shortest time is above a limit has a queue standing in it, which carries nothing more: the window is halved, and
// grows by a quarter in a round trip from then on. Loss is no sign of a queue: a packet lost by any worker makes its
// pass look lost to all. But a receive buffer that is known to have overflowed is: the window is halved, below its
// first size if need be, and grows by a quarter in many round trips from then on. (TCP's increase by one would leave a
// job slow for seconds after a stranger's burst has filled the switch's buffer.)
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "rdma_engine/base/time.h"

namespace jaxina {

struct WindowLimits {
  std::uint32_t first =
      std::numeric_limits<std::uint16_t>::max();  // passes, at first, and at least while no buffer overflows
  Nanoseconds standing = std::numeric_limits<Nanoseconds>::max();  // the longest round trip without a standing queue
};

class Window {
 public:
  Window(WindowLimits limits, std::uint32_t slots)
      : limits_(limits), slots_(slots), least_(std::min(limits.first, slots)), passes_(least_) {}

  std::uint32_t passes() const { return passes_; }

  // Whether results are still to come of what was in flight when a buffer overflowed.
  bool recovers() const { return older_ > 0; }

  // Of a pass that was sent once.
  void on_result(Nanoseconds round_trip) {
    shortest_ = std::min(shortest_, round_trip);
    if (grows()) passes_ = std::min(passes_ + (overflowed_ ? std::max(passes_ / 4, 1u) : 1), slots_);
    if (++results_ < passes_) return;
    ++round_trips_;
    if (shortest_ > limits_.standing) {
      passes_ = std::max(passes_ / 2, std::min(passes_, least_));
      growth_ = 4;
    }
    begin_round_trip();
  }

  // Of any pass.
  void on_any_result() {
    if (older_ > 0) --older_;
  }

  // A buffer on the way had no room for what was in flight. Counts once for all that was sent before it was known.
  void on_overflow() {
    if (recovers()) return;
    older_ = passes_;
    passes_ = std::max(passes_ / 2, 1u);
    overflowed_ = true;
    round_trips_ = 1;
    begin_round_trip();
  }

 private:
  bool grows() const {
    if (!overflowed_) return results_ % growth_ == 0;
    return results_ == 0 && round_trips_ % kRoundTripsToGrow == 0;
  }
  void begin_round_trip() {
    results_ = 0;
    shortest_ = std::numeric_limits<Nanoseconds>::max();
  }

  // What an overflow loses takes timeouts to repair: many round trips' time.
  static constexpr std::uint32_t kRoundTripsToGrow = 64;

  WindowLimits limits_;
  std::uint32_t slots_, least_, passes_;
  std::uint32_t growth_ = 1;       // results for one pass more, while no buffer has overflowed
  std::uint32_t results_ = 0;      // in this round trip
  std::uint32_t round_trips_ = 0;  // since the latest overflow
  std::uint32_t older_ = 0;        // results still to come of what was in flight at the latest overflow
  bool overflowed_ = false;
  Nanoseconds shortest_ = std::numeric_limits<Nanoseconds>::max();
};

}  // namespace jaxina
