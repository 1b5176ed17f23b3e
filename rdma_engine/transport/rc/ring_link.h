// RingLink: a worker's connections to its neighbours in a ring, as a ring's endpoint uses them. A device that does the
// packets' work by itself implements it: sockets with a thread of their own, an RDMA device, or the simulator.
#pragma once

#include <mutex>

#include "rdma_engine/transport/rc/ring_memory.h"

namespace jaxina::rc {

class RingLink : public roce::MessageQueues {
 public:
  // Queues a write of a pass with this fingerprint to the same place of the next worker's memory. `bytes` are in the
  // send or in the receive memory, and stay as they are until the next worker has them.
  virtual void post(const RingPlace& place, std::span<const std::uint8_t> bytes, std::uint32_t fingerprint) = 0;
  // This worker's own memory at a place.
  virtual std::span<std::uint8_t> at(const RingPlace& place, std::size_t bytes) = 0;

  // Why the connection to the next worker has ended; ok until it does.
  virtual const Status& ended() const = 0;

  // Keeps the device from reading messages, and from writing them, while their memory is used. All other methods are
  // called with it, except wait() and interrupt().
  virtual std::unique_lock<std::mutex> hold() { return {}; }
  // Waits until the next worker has everything, but not for long.
  virtual void linger() {}
};

}  // namespace jaxina::rc
