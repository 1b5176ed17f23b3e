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
// the window is decreased by half of the share of results that came with a mark lately, below its first size if
// necessary, and from then on grows by one per round trip (DCTCP: Alizadeh et al., SIGCOMM 2010). The first mark halves
// it. So a queue that stands decreases the window much, and a burst that one late thread has sent does so little. All
// workers of a job see the same marks, and jobs that share the port come to equal shares (Chiu and Jain, 1989). A
// result can only tell of a queue that the latest decrease did not shorten yet, if its pass was sent before that. So
// such results change nothing.
//
// If round trips stay long at the first size, others may fill the queue, as TCP does. So the window is a quarter of the
// first size for one round trip. If that is short, and takes at most half the time, the queue was the job's own.
// Otherwise a job that waits for the queue to drain gets next to nothing. Then the window competes: it grows although
// round trips are long, and is halved when a pass is lost (as in the competitive mode of Copa: Arun and Balakrishnan,
// NSDI 2018). Small round trips follow now and then, to see whether the others have gone.
//
// Otherwise loss is no sign of a queue: a packet that one worker loses makes its pass look lost to all workers. But a
// known overflow of a receive buffer is a sign. Then the window is halved, below its first size if necessary, and from
// then on grows by a quarter once in kRoundTripsToGrow round trips. (TCP's increase by one would leave a job slow for
// seconds after a stranger's burst has filled the switch's buffer.)
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

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
      : limits_(limits), slots_(slots), least_(std::min(limits.first, slots)), size_(least_) {}

  std::uint32_t passes() const { return static_cast<std::uint32_t>(size_); }

  // Whether some passes that were in flight at the latest overflow have no result yet.
  bool recovers() const { return awaited_ > 0; }

  // How many results came with a mark, and how often the window was decreased.
  std::uint64_t marks() const { return marks_; }
  std::uint64_t decreases() const { return decreases_; }

  // The result of a pass has come that was sent only once, at `sent`.
  void on_result(Nanoseconds sent, Nanoseconds now) {
    if ((marked_ || probing_) && sent < decreased_) return;
    shortest_ = std::min(shortest_, now - sent);
    if (grows()) size_ = std::min<double>(size_ + (overflowed_ ? std::max(passes() / 4, 1u) : 1), slots_);
    if (++results_ < passes()) return;
    ++round_trips_;
    const bool is_long = shortest_ > limits_.standing;
    if (probing_) end_probe(is_long || shortest_ > before_probe_ / 2);
    else if (competes_) count_long(now);
    else if (is_long) on_long_round_trip(now);
    begin_round_trip();
  }

  // A pass that was sent at `sent` was lost.
  void on_loss(Nanoseconds sent, Nanoseconds now) {
    if (!competes_ || probing_ || sent < decreased_) return;
    halve();
    growth_ = 0;
    note_decrease(now);
  }

  // The result of any pass has come that was first sent at `first_sent`. on_result() comes first.
  void on_any_result(bool is_marked, Nanoseconds first_sent, Nanoseconds now) {
    count(is_marked);
    if (awaited_ > 0) {
      --awaited_;
    } else if (is_marked && first_sent >= decreased_) {
      cancel_probe();
      size_ = std::max(size_ * (1 - marked_share_ / 2), 1.0);
      marked_ = true;
      note_decrease(now);
      begin_round_trip();
    }
  }

  // From now on passes take a way on which far fewer fit. So the window begins again at its first size, and grows by a
  // quarter per round trip.
  void on_rerouted() {
    cancel_probe();
    competes_ = false;
    size_ = std::min<double>(size_, least_);
    growth_ = 4;
    begin_round_trip();
  }

  // A receive buffer overflowed. All overflows of passes that were in flight together count as one.
  void on_overflow() {
    if (recovers()) return;
    cancel_probe();
    awaited_ = passes();
    size_ = std::max(size_ / 2, 1.0);
    ++decreases_;
    begin_round_trip();
    overflowed_ = true;
    round_trips_ = 1;
  }

 private:
  // Not below the first size, except where it is below already.
  void halve() { size_ = std::max<double>(size_ / 2, std::min(passes(), least_)); }
  void note_decrease(Nanoseconds now) {
    ++decreases_;
    decreased_ = now;
  }
  void on_long_round_trip(Nanoseconds now) {
    const bool near_first_size = size_ < 2 * least_;
    halve();
    growth_ = 4;
    note_decrease(now);
    if (near_first_size) count_long(now);
  }
  // Counts a round trip that is long although the window is small, or that competes. The second one begins a probe, and
  // then every kRoundTripsToProbe-th.
  void count_long(Nanoseconds now) {
    if (++long_ % kRoundTripsToProbe != 2) return;
    probing_ = true;
    before_probe_ = shortest_;
    resumed_ = size_;
    size_ = std::min<double>(size_, std::max(least_ / 4, 1u));
    decreased_ = now;
  }
  void end_probe(bool others) {
    probing_ = false;
    size_ = others ? resumed_ : std::min<double>(resumed_, least_);
    if (competes_ && !others) long_ = 0;  // they may be back soon
    competes_ = others;
  }
  void cancel_probe() {
    if (std::exchange(probing_, false)) size_ = resumed_;
  }
  bool grows() const {
    if (probing_) return false;
    if (overflowed_) return results_ == 0 && round_trips_ % kRoundTripsToGrow == 0;
    return marked_ || growth_ == 0 ? results_ == 0 : results_ % growth_ == 0;
  }
  // Of the results that come, the share with a mark: a mean in which each window of results counts one 16th.
  void count(bool is_marked) {
    marks_ += is_marked;
    counted_marks_ += is_marked;
    if (++counted_ < passes()) return;
    marked_share_ += (static_cast<double>(counted_marks_) / counted_ - marked_share_) / 16;
    counted_ = counted_marks_ = 0;
  }
  void begin_round_trip() {
    results_ = 0;
    shortest_ = std::numeric_limits<Nanoseconds>::max();
  }

  // Repairing the losses of an overflow takes timeouts, which last many round trips.
  static constexpr std::uint32_t kRoundTripsToGrow = 64;
  static constexpr std::uint32_t kRoundTripsToProbe = 64;

  WindowLimits limits_;
  std::uint32_t slots_, least_;
  double size_;  // the window; a fraction of a pass counts only for what follows
  // Results until the window grows by one, as long as no buffer has overflowed. 0: a round trip of them.
  std::uint32_t growth_ = 1;
  std::uint32_t results_ = 0;      // results in this round trip
  std::uint32_t round_trips_ = 0;  // since the latest overflow
  std::uint32_t awaited_ = 0;      // passes in flight at the latest overflow that have no result yet
  bool overflowed_ = false, marked_ = false;
  bool competes_ = false, probing_ = false;
  std::uint32_t long_ = 0;                         // see count_long()
  double resumed_ = 0;                             // the window from before the probe
  Nanoseconds before_probe_ = 0;                   // the round trip from before it
  std::uint32_t counted_ = 0, counted_marks_ = 0;  // results, and marks, since the share was updated
  double marked_share_ = 1;
  std::uint64_t marks_ = 0, decreases_ = 0;
  Nanoseconds decreased_ = std::numeric_limits<Nanoseconds>::min();  // latest decrease by a mark or long round trips
  Nanoseconds shortest_ = std::numeric_limits<Nanoseconds>::max();
};

}  // namespace jaxina
