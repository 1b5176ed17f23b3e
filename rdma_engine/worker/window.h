// How many passes a worker has in flight at most. The pool is the bound; below it the window follows the measured
// bandwidth-delay product, so that one pool serves fast networks and does not overflow the queues of slow ones.
//
// It begins small, because a whole pool sent at once, by all workers at once, is a burst that a queue may have no room
// for, and grows by one with every result: it doubles in a round trip, as in TCP's slow start. A round trip whose
// shortest time is above a limit has a queue standing in it, which carries nothing more: the window is halved, and grows
// by a quarter in a round trip from then on. Loss is no sign of a queue: a packet lost by any worker makes its pass
// look lost to all.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "rdma_engine/base/time.h"

namespace jaxina {

struct WindowLimits {
  std::uint32_t first = std::numeric_limits<std::uint16_t>::max();  // passes, at first and at least
  Nanoseconds standing = std::numeric_limits<Nanoseconds>::max();   // the longest round trip without a standing queue
};

class Window {
 public:
  Window(WindowLimits limits, std::uint32_t slots)
      : limits_(limits), slots_(slots), least_(std::min(limits.first, slots)), passes_(least_) {}

  std::uint32_t passes() const { return std::max(passes_, silence_); }

  void on_result(Nanoseconds round_trip) {
    silence_ = 0;
    shortest_ = std::min(shortest_, round_trip);
    if (results_ % growth_ == 0) passes_ = std::min(passes_ + 1, slots_);
    if (++results_ < passes_) return;
    if (shortest_ > limits_.standing) {
      passes_ = std::max(passes_ / 2, least_);
      growth_ = 4;
    }
    results_ = 0;
    shortest_ = std::numeric_limits<Nanoseconds>::max();
  }

  // No result has come for as long as a timeout, perhaps because this worker holds back what the others wait for: more
  // may be in flight, until the next result.
  void on_silence() { silence_ = std::min(2 * passes(), slots_); }

 private:
  WindowLimits limits_;
  std::uint32_t slots_, least_, passes_;
  std::uint32_t silence_ = 0;  // passes, while no results come
  std::uint32_t growth_ = 1;   // results for one pass more
  std::uint32_t results_ = 0;  // in this round trip
  Nanoseconds shortest_ = std::numeric_limits<Nanoseconds>::max();
};

}  // namespace jaxina
