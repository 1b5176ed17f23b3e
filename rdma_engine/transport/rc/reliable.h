// What a worker must be told if its transport is reliable: it never sends a pass again.
#pragma once

#include <cstdint>

#include "rdma_engine/worker/retransmission_timer.h"

namespace jaxina::rc {

// No silence counts as a loss, and no overtaking: passes may be overtaken by two of every other slot
// (docs/netreduce.md).
constexpr TimerLimits worker_timer(std::uint32_t slots) {
  constexpr Nanoseconds kNever = Nanoseconds{1'000'000'000} * 1'000'000;  // eleven days
  return {.initial = kNever, .minimum = kNever, .maximum = kNever, .reordering = 4 * slots};
}

}  // namespace jaxina::rc
