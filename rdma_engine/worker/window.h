// Window: the maximum number of passes that a worker has in flight. The pool is the upper bound. Below it the window
// follows the measured bandwidth-delay product. So one pool size works for fast networks without overflowing the queues
// of slow ones.
//
// The window begins small, because all workers begin at once, and a whole pool from each of them is a burst that may
// not fit a queue. It grows by one with every result, so it doubles per round trip, as in TCP's slow start. If even the
// shortest time within a round trip is above a limit, a queue is standing somewhere, and more packets in flight carry
// nothing more. Then the window is halved, and from then on grows by a quarter per round trip.
//
// A result with a mark says that a queue has formed at a port of a switch, though round trips may still be short. Then
// the window is halved, below its first size if necessary, and from then on grows by one per round trip. All workers of
// a job see the same marks, and jobs that share the port come to equal shares (Chiu and Jain, 1989). Every result of
// the passes that were in flight may have a mark of the same queue, so until they have all come, marks and round trips
// change nothing.
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
  bool recovers() const { return awaited_ > 0 && awaited_from_ == Sign::kOverflow; }

  // How many results came with a mark, and how often the window was decreased.
  std::uint64_t marks() const { return marks_; }
  std::uint64_t decreases() const { return decreases_; }

  // The result of a pass that was sent only once has come.
  void on_result(Nanoseconds round_trip) {
    if (awaited_ > 0 && awaited_from_ == Sign::kMark) return;
    shortest_ = std::min(shortest_, round_trip);
    if (grows()) passes_ = std::min(passes_ + (overflowed_ ? std::max(passes_ / 4, 1u) : 1), slots_);
    if (++results_ < passes_) return;
    ++round_trips_;
    if (shortest_ > limits_.standing) {
      if (awaited_ == 0) await(Sign::kStanding, passes_);
      passes_ = std::max(passes_ / 2, std::min(passes_, least_));
      growth_ = 4;
      ++decreases_;
    }
    begin_round_trip();
  }

  // The result of any pass has come, after which so many are in flight. on_result() comes first.
  void on_any_result(bool is_marked, std::uint32_t in_flight) {
    marks_ += is_marked;
    if (awaited_ > 0) {
      --awaited_;
    } else if (is_marked) {
      halve(Sign::kMark, in_flight);
      marked_ = true;
    }
  }

  // A receive buffer overflowed. All overflows of passes that were in flight together count as one.
  void on_overflow() {
    if (recovers()) return;
    halve(Sign::kOverflow, passes_);
    overflowed_ = true;
    round_trips_ = 1;
  }

 private:
  enum class Sign : std::uint8_t { kOverflow, kMark, kStanding };

  bool grows() const {
    if (overflowed_) return results_ == 0 && round_trips_ % kRoundTripsToGrow == 0;
    return marked_ ? results_ == 0 : results_ % growth_ == 0;
  }
  void await(Sign sign, std::uint32_t in_flight) {
    awaited_ = in_flight;
    awaited_from_ = sign;
  }
  void halve(Sign sign, std::uint32_t in_flight) {
    await(sign, in_flight);
    passes_ = std::max(passes_ / 2, 1u);
    ++decreases_;
    begin_round_trip();
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
  std::uint32_t awaited_ = 0;      // passes in flight at the latest decrease that have no result yet
  Sign awaited_from_ = Sign::kOverflow;
  bool overflowed_ = false, marked_ = false;
  std::uint64_t marks_ = 0, decreases_ = 0;
  Nanoseconds shortest_ = std::numeric_limits<Nanoseconds>::max();
};

}  // namespace jaxina
