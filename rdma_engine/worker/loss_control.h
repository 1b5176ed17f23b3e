// What is in flight, how much may be, and what of it is taken for lost: the worker's loss recovery. Knows slots and
// times, and nothing of what their passes carry or which pass comes next.
//
// A pass is taken for lost when later ones on its path have been answered (SendOrder), or when its timeout passes and
// something sent later has been answered. Silence, where nothing sent later has been answered, is probed instead: see
// probe().
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

  // Whether one more pass may be in flight.
  bool has_room() const { return in_flight_ < window_.passes(); }

  // The slot's pass is sent now: for the first time since its last result, or again.
  void on_sent(std::uint16_t slot, Nanoseconds now) {
    Slot& s = slots_[slot];
    JAXINA_ASSERT(!s.in_flight && in_flight_ < slots_.size());
    s.in_flight = true;
    s.sent = now;
    s.order = path(slot).add(slot);
    if (s.attempts == 0) s.first_order = s.order;
    else ++retransmissions_;
    ++s.attempts;
    ++in_flight_;
    next_deadline_ = in_flight_ == 1 ? due(slot) : std::min(next_deadline_, due(slot));
  }

  bool is_in_flight(std::uint16_t slot) const { return slots_[slot].in_flight; }
  // Whether the slot's pass has been sent and its result has not come: it is in flight, or taken for lost.
  bool was_sent(std::uint16_t slot) const { return slots_[slot].attempts > 0; }

  // The result of a pass that was_sent(). Calls lost(slot) for each pass in flight that it shows to be lost.
  template <typename Lost>
  void on_result(std::uint16_t slot, Nanoseconds now, Lost lost) {
    Slot& s = slots_[slot];
    if (s.in_flight) leave_flight(s);
    window_.on_any_result();
    if (s.attempts == 1) {
      timer_.sample(now - s.sent);
      window_.on_result(now - s.sent);
    }
    // What was sent before it has been overtaken, so it may be due sooner.
    silences_ = 0;
    probes_ = 1;
    next_probe_ = 0;
    next_deadline_ = std::min(next_deadline_, now + timer_.timeout());
    s.attempts = 0;
    s.counted = false;
    const auto awaited = [this](std::uint16_t other, std::uint64_t its_order) {
      return slots_[other].in_flight && slots_[other].order == its_order;
    };
    // Which transmission a result answers is not known; the first one is the careful guess. (To take the last one makes
    // whatever was sent before it look overtaken: one needless retransmission then brings on a whole pool of them.)
    path(slot).on_result(s.first_order, timer_.reordering(), awaited, [&](std::uint16_t overtaken) {
      // What is counted waits for another worker; only its result can be lost, for which there is time.
      if (!slots_[overtaken].counted) give_up(overtaken, lost);
    });
  }

  // A receive buffer overflowed, here or at the aggregator.
  void on_overflow() { window_.on_overflow(); }

  // The aggregator has the slot's pass and waits for other workers. False if the pass is not in flight.
  bool on_pending(std::uint16_t slot, Nanoseconds now);

  // Calls lost(slot) for each pass that is to be sent again because of its timeout. Looks at the slots only if one may
  // be due.
  template <typename Lost>
  void on_tick(Nanoseconds now, Lost lost) {
    if (in_flight_ == 0 || now < next_deadline_) return;
    silent_.clear();
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      const auto slot = narrow<std::uint16_t>(i);
      if (!slots_[slot].in_flight || due(slot) > now) continue;
      if (path(slot).answered_after(slots_[slot].order)) give_up(slot, lost);
      else silent_.push_back(slot);
    }
    if (!silent_.empty()) {
      const std::size_t count = probe(now);
      for (std::size_t i = 0; i < count; ++i) give_up(silent_[i], lost);
    }
    next_deadline_ = earliest_due();
  }

  // When on_tick() is due; nullopt if nothing is in flight. May be early, and late once the timeout has shrunk.
  std::optional<Nanoseconds> next_deadline() const {
    return in_flight_ > 0 ? std::optional(next_deadline_) : std::nullopt;
  }

  std::size_t in_flight() const { return in_flight_; }
  std::uint64_t retransmissions() const { return retransmissions_; }
  // The slots whose pass was_sent(), the one sent last first.
  std::vector<std::uint16_t> latest_first() const;

 private:
  struct Slot {
    Nanoseconds sent = 0;           // or, if later, when the aggregator said that it waits for others
    std::uint64_t order = 0;        // of the pass's latest transmission, on its path
    std::uint64_t first_order = 0;  // of its first one
    std::uint32_t attempts = 0;     // its transmissions
    bool counted = false;           // the aggregator has said that it has the pass
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
  // When the slot's pass is taken for lost.
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
  std::vector<std::uint16_t> silent_;  // slots whose timeout says nothing about their own packets
  std::size_t probes_ = 1;             // how many of them are sent again at the next timeout
  std::uint32_t silences_ = 0;         // timeouts since the last result
  Nanoseconds next_probe_ = 0;         // which is not before
  std::size_t in_flight_ = 0;
  std::uint64_t retransmissions_ = 0;
  Nanoseconds next_deadline_ = 0;
};

}  // namespace jaxina
