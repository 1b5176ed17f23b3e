// What one data thread of a switch drives: sockets with the aggregators behind them.
#pragma once

#include <cstddef>

#include "rdma_engine/base/time.h"

namespace jaxina {

class PacketEngine {
 public:
  virtual ~PacketEngine() = default;

  // Handles a batch of what has arrived and sends what follows from it. Returns how many packets came. Never waits.
  virtual std::size_t turn() = 0;
  // Sends what commands have left to send.
  virtual void flush() = 0;
  // Sleeps until something has arrived, interrupt() was called, or the timeout has passed.
  virtual void wait(Nanoseconds timeout) = 0;
  virtual void interrupt() = 0;  // thread-safe
};

}  // namespace jaxina
