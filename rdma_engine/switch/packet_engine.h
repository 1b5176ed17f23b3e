// PacketEngine: what one data thread of a switch drives: sockets and the aggregators behind them.
#pragma once

#include <cstddef>

#include "rdma_engine/base/time.h"

namespace jaxina {

class PacketEngine {
 public:
  virtual ~PacketEngine() = default;

  // Handles a batch of arrived packets and sends the answers. Returns how many packets arrived. Never waits.
  virtual std::size_t turn() = 0;
  // Sends what commands have queued.
  virtual void flush() = 0;
  // Sleeps until something arrives, interrupt() is called, or the timeout passes.
  virtual void wait(Nanoseconds timeout) = 0;
  virtual void interrupt() = 0;  // thread-safe
};

}  // namespace jaxina
