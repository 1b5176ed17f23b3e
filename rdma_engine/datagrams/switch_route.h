// SwitchRoute: decides whether a worker sends a pass through a switch that may combine it, or directly to its server.
//
// A pass that is lost again and again goes through the switch as long as it can be, the third time as it is: the switch
// knows its ports' queues and marks what it sends. Packets that go directly are not marked, so they must be few, or the
// link to the server overflows.
//
// A switch of the job may be gone, or may have lost the job. Then every pass would wait for three timeouts before it
// goes directly. So after a number of passes that went directly in the end, passes go directly at once. A few passes
// still try the switches, the fewer the longer it lasts. They are the same ones at all workers. On the direct way there
// are n packets of each pass at the server instead of one, so the window begins again at its first size
// (Worker::on_rerouted).
//
// If one worker sends a pass directly, the server tells the others, so that they do not leave it to the switches
// either. It does the same if a second transmission comes alone: then no switch had an entry for the pass, and others
// that claim one now wait in vain. Without this, workers with windows of different sizes can stand still nearly for
// ever: each pass takes all timeouts, so first transmissions of a pass are further apart than an entry lives
// (docs/atp.md).
//
// All workers must decide alike. If some send a pass directly, a switch waits for them in vain, and holds what the
// others have sent until it expires: then every pass takes all timeouts. So a worker does not go by what a switch has
// sent to it, which differs between workers. It goes by what the results say, which is the same for all.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "rdma_engine/wire/packet.h"
#include "rdma_engine/worker/pass.h"

namespace jaxina {

class SwitchRoute {
 public:
  explicit SwitchRoute(std::size_t slots) : slots_(slots) {}

  // How to send the pass. kDirect goes to the server, everything else to the switch.
  wire::Transmission next(const Pass& pass) {
    Slot& slot = slots_[pass.slot];
    const bool through_switch = pass.sent_before < kDirect && (unhelped_ < kMostUnhelped || tries(pass));
    if (!pass.retransmission()) slot.tried = through_switch;
    slot.latest = through_switch ? static_cast<wire::Transmission>(pass.sent_before) : wire::Transmission::kDirect;
    if (slot.told == pass.epoch) slot.latest = std::max(slot.latest, wire::Transmission::kUncombined);
    return slot.latest;
  }
  // An update of the slot's pass has come to the server, directly or alone. Returns whether a switch may hold this
  // worker's: then the pass must be sent again. If an update came alone, this worker's second transmission probably
  // comes so, too, and is on its way.
  bool on_told(std::uint16_t slot, std::uint32_t epoch, bool directly) {
    slots_[slot].told = epoch;
    return slots_[slot].latest < (directly ? wire::Transmission::kUncombined : wire::Transmission::kAgain);
  }
  // The result of the slot's pass has come, which says whether an update of it came directly. Returns whether passes go
  // directly from now on, which they did not before.
  bool on_result(std::uint16_t slot, bool came_directly) {
    if (!came_directly) return set_unhelped(0);
    const bool says_something = slots_[slot].tried || unhelped_ >= kMostUnhelped;
    return says_something && set_unhelped(unhelped_ + 1);
  }
  // The switch does not know the job. Returns the same.
  bool on_refusal() { return set_unhelped(std::max(unhelped_, kMostUnhelped)); }

 private:
  static constexpr auto kDirect = static_cast<std::uint32_t>(wire::Transmission::kDirect);
  static constexpr std::uint32_t kMostUnhelped = 16;
  // Until so many passes have gone directly, one of 16 tries the switches, and one of 64 until so many. Later it is one
  // of 256: each try that fails delays its pass by three timeouts.
  static constexpr std::uint32_t kTriedOften = 256, kTriedSeldom = 1024;

  // By a multiplicative hash.
  bool tries(const Pass& pass) const {
    const int bits = unhelped_ < kTriedOften ? 4 : unhelped_ < kTriedSeldom ? 6 : 8;
    return (pass.slot * 0x9e3779b1u + pass.epoch * 0x85ebca6bu) >> (32 - bits) == 0;
  }

  // Returns whether it is too many now, and was not before.
  bool set_unhelped(std::uint32_t passes) {
    const std::uint32_t before = std::exchange(unhelped_, std::min(passes, kTriedSeldom));
    return unhelped_ >= kMostUnhelped && before < kMostUnhelped;
  }

  struct Slot {
    bool tried = false;  // the pass was first sent through the switch
    wire::Transmission latest = wire::Transmission::kFirst;
    std::optional<std::uint32_t> told;  // the latest pass of which another worker's update came directly, or alone
  };

  // Passes in a row that were sent through the switch and went directly in the end; from kMostUnhelped on, all passes.
  std::uint32_t unhelped_ = 0;
  std::vector<Slot> slots_;
};

}  // namespace jaxina
