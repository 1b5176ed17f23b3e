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

// Where workers share a link, its queue fills although none of them sends too fast by itself. One lost packet then
// makes all of them send their part of the pass again. So the window must stop growing before the queue of a small
// switch (5 ms) is full: with 8 ms, half of what four workers sent to a server on one link was sent again
// (docs/performance.md).
inline constexpr Nanoseconds kSharedStanding = 4'000'000;

// The same where there is room for `room` passes of each worker (0: not known), and where so many workers' packets
// share one link on the way to where they are summed: then its queue must take all their first windows.
inline WindowLimits window_for(std::uint32_t room, std::uint32_t workers_per_link) {
  WindowLimits limits = kWindow;
  limits.first = std::max(limits.first / workers_per_link, 1u);
  if (workers_per_link > 1) limits.standing = kSharedStanding;
  if (room > 0) limits.first = std::min(limits.first, room);
  return limits;
}

}  // namespace jaxina::udp
