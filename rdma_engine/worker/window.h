// Window: the maximum number of passes that a worker has in flight. The pool is the upper bound. Below it the window
// follows the measured bandwidth-delay product. So one pool size works for fast networks without overflowing the queues
// of slow ones.
//
// The window begins small, because all workers begin at once, and a whole pool from each of them is a burst that may
// not fit a queue. It grows by one with every result, so it doubles per round trip, as in TCP's slow start. If even the
// shortest time within a round trip is above a limit, a queue is standing somewhere, and more packets in flight carry
// nothing more. Then the window is halved, and from then on grows by a quarter per round trip.
//
// Loss is no sign of a queue: a packet that one worker loses makes its pass look lost to all workers. But a known
// overflow of a receive buffer is a sign. Then the window is halved, below its first size if necessary, and from then
// on grows by a quarter once in kRoundTripsToGrow round trips. (TCP's increase by one would leave a job slow for
// seconds after a stranger's burst has filled the switch's buffer.)
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "rdma_engine/base/time.h"

namespace jaxina {

struct WindowLimits {
  // In passes: the first size, and the least one as long as no buffer overflows.
  std::uint32_t first = std::numeric_limits<std::uint16_t>::max();
  Nanoseconds standing = std::numeric_limits<Nanoseconds>::max();  // the longest round trip without a standing queue
};

class Window {
 public:
  Window(WindowLimits limits, std::uint32_t slots)
      : limits_(limits), slots_(slots), least_(std::min(limits.first, slots)), passes_(least_) {}

  std::uint32_t passes() const { return passes_; }

  // Whether some passes that were in flight at the latest overflow have no result yet.
  bool recovers() const { return awaited_from_overflow_ > 0; }

  // The result of a pass that was sent only once has come.
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

  // The result of any pass has come.
  void on_any_result() {
    if (awaited_from_overflow_ > 0) --awaited_from_overflow_;
  }

  // A receive buffer overflowed. All overflows of passes that were in flight together count as one.
  void on_overflow() {
    if (recovers()) return;
    awaited_from_overflow_ = passes_;
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

  // Repairing the losses of an overflow takes timeouts, which last many round trips.
  static constexpr std::uint32_t kRoundTripsToGrow = 64;

  WindowLimits limits_;
  std::uint32_t slots_, least_, passes_;
  std::uint32_t growth_ = 1;       // results until the window grows by one, as long as no buffer has overflowed
  std::uint32_t results_ = 0;      // results in this round trip
  std::uint32_t round_trips_ = 0;  // since the latest overflow
  std::uint32_t awaited_from_overflow_ = 0;  // passes in flight at the latest overflow that have no result yet
  bool overflowed_ = false;
  Nanoseconds shortest_ = std::numeric_limits<Nanoseconds>::max();
};

}  // namespace jaxina
