// The one clock that drives the transports and the engine. State machines are given the time instead.
#pragma once

#include <chrono>

#include "rdma_engine/base/time.h"

namespace jaxina {

// Never goes back; the same for all processes of a host.
inline Nanoseconds now() {
  using std::chrono::nanoseconds, std::chrono::steady_clock;
  return std::chrono::duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count();
}

}  // namespace jaxina
