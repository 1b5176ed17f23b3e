// When the udp transport sends a pass again, and how many passes it has in flight.
#pragma once

#include "rdma_engine/worker/retransmission_timer.h"
#include "rdma_engine/worker/window.h"

namespace jaxina::udp {

inline constexpr TimerLimits kTimer;

// At first: what any switch's queue and any socket's buffer takes from every worker at once. A queue that stands for 8 ms
// is longer than what evens out that a thread waits for a processor.
inline constexpr WindowLimits kWindow{.first = 64, .standing = 8'000'000};

}  // namespace jaxina::udp
