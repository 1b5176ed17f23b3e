// now(): the one clock of the transports and the engine. State machines do not read it; they are given the time.
#pragma once

#include <chrono>

#include "rdma_engine/base/time.h"

namespace jaxina {

// Monotonic. All processes of a host see the same clock.
inline Nanoseconds now() {
  using std::chrono::nanoseconds, std::chrono::steady_clock;
  return std::chrono::duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count();
}

}  // namespace jaxina
