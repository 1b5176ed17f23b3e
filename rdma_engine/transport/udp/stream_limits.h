// The udp transport's parameters: when it sends a pass again, and how many passes it has in flight.
#pragma once

#include <algorithm>
#include <cstdint>

#include "rdma_engine/worker/retransmission_timer.h"
#include "rdma_engine/worker/window.h"

namespace jaxina::udp {

// The minimum is twice SwitchML's 1 ms, because workers are threads that wait for a processor: with 2 ms, a busy host
// with two processors retransmits a third as much in vain, and recovery from loss costs no more (loss_bench). The
// distance is 64, because a super-packet holds 64 passes, and between super-packets passes are only as ordered as the
// workers' threads were. With half the distance, twice as much is retransmitted in vain.
inline constexpr TimerLimits kTimer{.minimum = 2'000'000, .reordering = 64};

// The first window is what any switch's queue and any socket's buffer can take from all workers at once. A queue that
// stands for 8 ms is longer than what is needed to bridge the time that a thread waits for a processor.
inline constexpr WindowLimits kWindow{.first = 64, .standing = 8'000'000};

// The same for a switch that says for how many passes of each worker it has room; 0: it does not say.
inline WindowLimits window_for(std::uint32_t room) {
  WindowLimits limits = kWindow;
  if (room > 0) limits.first = std::min(limits.first, room);
  return limits;
}

}  // namespace jaxina::udp
