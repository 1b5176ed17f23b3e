// When the udp transport sends a pass again, and how many passes it has in flight.
#pragma once

#include <algorithm>
#include <cstdint>

#include "rdma_engine/worker/retransmission_timer.h"
#include "rdma_engine/worker/window.h"

namespace jaxina::udp {

// Twice SwitchML's 1 ms, since workers are threads that wait for a processor. A busy two-processor host sends a third
// as much again in vain with it, and loss costs no more (loss_bench). A super-packet holds 64 passes, which are no
// further in order than their workers were: with half the distance twice as much is sent again in vain.
inline constexpr TimerLimits kTimer{.minimum = 2'000'000, .reordering = 64};

// At first: what any switch's queue and any socket's buffer takes from every worker at once. A queue that stands for 8
// ms is longer than what evens out that a thread waits for a processor.
inline constexpr WindowLimits kWindow{.first = 64, .standing = 8'000'000};

// The same for a switch that says how many passes of each worker it has room for; 0: it does not.
inline WindowLimits window_for(std::uint32_t room) {
  WindowLimits limits = kWindow;
  if (room > 0) limits.first = std::min(limits.first, room);
  return limits;
}

}  // namespace jaxina::udp
