// LossControl: the worker's loss recovery. It knows what is in flight, how much may be, and which passes count as lost.
// It knows slots and times, but neither what passes carry nor which pass comes next.
//
// A pass counts as lost when results of later passes on its path have come (SendOrder), or when its timeout has passed
// and a result of something sent later has come. If nothing sent later has been answered, the silence is probed
// instead: see probe().
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "rdma_engine/base/assert.h"
#include "rdma_engine/base/narrow.h"
#include "rdma_engine/base/time.h"
#include "rdma_engine/worker/retransmission_timer.h"
#include "rdma_engine/worker/send_order.h"
#include "rdma_engine/worker/window.h"

namespace jaxina {

class LossControl {
 public:
  // Slot i's packets take path i % paths.
  LossControl(std::size_t slots, const TimerLimits& timer, std::uint32_t paths, WindowLimits window)
      : slots_(slots),
        paths_(paths, SendOrder(2 * slots + timer.reordering)),
        timer_(timer),
        window_(window, narrow<std::uint32_t>(slots)) {
    silent_.reserve(slots);
  }

  // Whether the window has room for one more pass in flight.
  bool has_room() const { return in_flight_ < window_.passes(); }

  // The slot's pass is sent now, for the first time since the slot's last result, or again.
  void on_sent(std::uint16_t slot, Nanoseconds now) {
    Slot& s = slots_[slot];
    JAXINA_ASSERT(!s.in_flight && in_flight_ < slots_.size());
    s.in_flight = true;
    s.sent = now;
    s.order = path(slot).add(slot);
    if (s.attempts == 0) {
      s.first_order = s.order;
      s.first_sent = now;
    } else {
      ++retransmissions_;
    }
    ++s.attempts;
    ++in_flight_;
    next_deadline_ = in_flight_ == 1 ? due(slot) : std::min(next_deadline_, due(slot));
  }

  bool is_in_flight(std::uint16_t slot) const { return slots_[slot].in_flight; }
  // Whether the slot's pass was sent and has no result yet: it is in flight, or counts as lost.
  bool was_sent(std::uint16_t slot) const { return slots_[slot].attempts > 0; }

  // How often the slot's pass was sent since the slot's last result.
  std::uint32_t times_sent(std::uint16_t slot) const { return slots_[slot].attempts; }

  // The result of the slot's pass has come; was_sent(slot) must hold. `is_marked` says that a queue has formed on its
  // way. Calls lost(slot) for each pass in flight that now counts as lost.
  template <typename Lost>
  void on_result(std::uint16_t slot, Nanoseconds now, bool is_marked, Lost lost) {
    Slot& s = slots_[slot];
    if (s.in_flight) leave_flight(s);
    if (s.attempts == 1) {
      timer_.sample(now - s.sent);
      window_.on_result(s.first_sent, now);
    }
    window_.on_any_result(is_marked, s.first_sent, now);
    // This result has overtaken the passes sent before it, so they may be due sooner. If its pass was sent again after
    // more than the longest timeout, there was a standstill, and the next of those that are due is sent at once, as TCP
    // does (RFC 6582, partial acknowledgments). With one pass per timeout, a worker that has lost a whole window would
    // hold up all others for that many timeouts. Otherwise a pass that is due is probably only late.
    silences_ = 0;
    probes_ = 1;
    next_probe_ = 0;
    const bool stood_still = s.attempts > 1 && !s.counted && now - s.first_sent > timer_.maximum();
    next_deadline_ = stood_still ? now : std::min(next_deadline_, now + timer_.timeout());
    s.attempts = 0;
    s.counted = false;
    const auto awaited = [this](std::uint16_t other, std::uint64_t its_order) {
      return slots_[other].in_flight && slots_[other].order == its_order;
    };
    // We cannot know which transmission this result answers. Assuming the first one is the careful guess. If we assumed
    // the last one, everything sent before it would look overtaken, and one needless retransmission would cause a whole
    // pool of them.
    path(slot).on_result(s.first_order, timer_.reordering(), awaited, [&](std::uint16_t overtaken) {
      // A counted pass waits for another worker. Only its result can be lost, and for that the timeout is soon enough.
      if (slots_[overtaken].counted) return;
      window_.on_loss(slots_[overtaken].sent, now);
      give_up(overtaken, lost);
    });
  }

  // A receive buffer overflowed, this worker's or the aggregator's.
  void on_overflow() { window_.on_overflow(); }
  // From now on passes take another way, on which far fewer fit. Calls lost(slot) for each pass in flight: they are
  // sent again that way, as many at a time as the window has now. (TCP does so after a timeout.)
  template <typename Lost>
  void on_rerouted(Lost lost) {
    window_.on_rerouted();
    for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
      if (slots_[slot].in_flight) give_up(narrow<std::uint16_t>(slot), lost);
    }
  }

  // The aggregator has the slot's pass and waits for other workers. `asked` says that this answers a transmission of
  // this worker: then a probe has come through, and other passes probably have, too. Returns false if the pass is not
  // in flight.
  bool on_pending(std::uint16_t slot, Nanoseconds now, bool asked = true);

  // The aggregator has not counted the slot's pass, and waits for it. Calls lost(slot) if it is in flight.
  template <typename Lost>
  void on_not_counted(std::uint16_t slot, Lost lost) {
    // A pass that was sent once may still be on its way: a switch may hold it until others have come.
    if (slots_[slot].in_flight && slots_[slot].attempts > 1) give_up(slot, lost);
  }

  // A switch on the way has not taken the slot's pass, or will not pass it on. Calls lost(slot) if it is in flight.
  template <typename Lost>
  void on_turned_away(std::uint16_t slot, Lost lost) {
    if (slots_[slot].in_flight) give_up(slot, lost);
  }

  // Calls lost(slot) for each pass that must be sent again because of its timeout. It looks at the slots only if one
  // may be due, so it is cheap to call.
  template <typename Lost>
  void on_tick(Nanoseconds now, Lost lost) {
    if (in_flight_ == 0 || now < next_deadline_) return;
    silent_.clear();
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      const auto slot = narrow<std::uint16_t>(i);
      if (!slots_[slot].in_flight || due(slot) > now) continue;
      if (path(slot).answered_after(slots_[slot].order)) {
        window_.on_loss(slots_[slot].sent, now);
        give_up(slot, lost);
      } else {
        silent_.push_back(slot);
      }
    }
    if (!silent_.empty()) {
      const std::size_t count = probe(now);
      for (std::size_t i = 0; i < count; ++i) give_up(silent_[i], lost);
    }
    next_deadline_ = earliest_due();
  }

  // When on_tick() is due; nullopt if nothing is in flight. The time may be too early, or too late if the timeout has
  // shrunk since.
  std::optional<Nanoseconds> next_deadline() const {
    return in_flight_ > 0 ? std::optional(next_deadline_) : std::nullopt;
  }

  std::size_t in_flight() const { return in_flight_; }
  std::uint64_t retransmissions() const { return retransmissions_; }
  const Window& window() const { return window_; }
  // The slots for which was_sent() holds, the most recently sent first.
  std::vector<std::uint16_t> latest_first() const;

 private:
  struct Slot {
    Nanoseconds first_sent = 0;     // when the pass was first sent
    Nanoseconds sent = 0;           // when the pass was sent, or when the aggregator last reported it pending
    std::uint64_t order = 0;        // number of the pass's latest transmission on its path
    std::uint64_t first_order = 0;  // number of its first transmission
    std::uint32_t attempts = 0;     // how often it was sent
    bool counted = false;           // the aggregator has reported that it has the pass
    bool in_flight = false;
  };

  SendOrder& path(std::uint16_t slot) { return paths_[slot % paths_.size()]; }
  const SendOrder& path(std::uint16_t slot) const { return paths_[slot % paths_.size()]; }
  void leave_flight(Slot& slot) {
    JAXINA_ASSERT(in_flight_ > 0);
    slot.in_flight = false;
    --in_flight_;
  }
  template <typename Lost>
  void give_up(std::uint16_t slot, Lost& lost) {
    leave_flight(slots_[slot]);
    lost(slot);
  }
  // When the slot's pass counts as lost, or when the next probe may send it again.
  Nanoseconds due(std::uint16_t slot) const {
    const Slot& s = slots_[slot];
    const Nanoseconds expires = s.sent + timer_.timeout();
    return path(slot).answered_after(s.order) ? expires : std::max(expires, next_probe_);
  }
  Nanoseconds earliest_due() const;
  std::size_t probe(Nanoseconds now);

  std::vector<Slot> slots_;
  std::vector<SendOrder> paths_;
  RetransmissionTimer timer_;
  Window window_;
  std::vector<std::uint16_t> silent_;  // slots whose timeout passed while nothing sent later was answered
  std::size_t probes_ = 1;             // how many of these the next probe sends again
  std::uint32_t silences_ = 0;         // probes since the last result
  Nanoseconds next_probe_ = 0;         // no probe before this time
  std::size_t in_flight_ = 0;
  std::uint64_t retransmissions_ = 0;
  Nanoseconds next_deadline_ = 0;
};

}  // namespace jaxina
