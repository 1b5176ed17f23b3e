// SequenceTracker: what a packet's number means for the switch. It takes a connection's packets in their order, holds
// them until their sums are there, and releases them in the same order.
#pragma once

#include <cstdint>

#include "rdma_engine/base/assert.h"
#include "rdma_engine/wire/psn.h"

namespace jaxina::netreduce {

class SequenceTracker {
 public:
  explicit SequenceTracker(std::uint32_t first_psn) : first_psn_(first_psn) {}

  enum class Kind : std::uint8_t {
    kNext,      // the packet that comes next
    kHeld,      // a copy of one that waits for its sum
    kReleased,  // a copy of one that was released
    kAhead,     // packets before it are missing
    kBefore,    // from before the connection's first packet
  };
  struct Place {
    Kind kind = Kind::kBefore;
    std::uint64_t number = 0;  // counted from the connection's first packet; of all but kBefore
  };
  Place place_of(std::uint32_t psn) const {
    const std::int32_t distance = roce::psn_distance(roce::psn_after(first_psn_, taken_), psn);
    if (distance > 0) return {Kind::kAhead, taken_ + static_cast<std::uint64_t>(distance)};
    const auto back = static_cast<std::uint64_t>(-distance);
    if (back > taken_) return {Kind::kBefore, 0};
    const std::uint64_t number = taken_ - back;
    return {back == 0 ? Kind::kNext : number < released_ ? Kind::kReleased : Kind::kHeld, number};
  }

  void take() { ++taken_; }
  void release() {
    JAXINA_ASSERT(released_ < taken_);
    ++released_;
  }
  std::uint64_t taken() const { return taken_; }
  std::uint64_t released() const { return released_; }
  std::uint64_t held() const { return taken_ - released_; }

 private:
  std::uint32_t first_psn_;
  std::uint64_t taken_ = 0, released_ = 0;  // packets
};

}  // namespace jaxina::netreduce
