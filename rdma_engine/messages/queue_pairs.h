// What the RDMA endpoint needs of an RDMA device: a set of UC queue pairs that all lead to one peer. Behind it are
// libibverbs or a socket. Like an Endpoint it belongs to one thread, interrupt() excepted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "rdma_engine/base/counters.h"
#include "rdma_engine/base/time.h"
#include "rdma_engine/errors.h"
#include "rdma_engine/messages/connection_end.h"
#include "rdma_engine/wire/roce.h"
#include "rdma_engine/worker/tensor_device.h"

namespace jaxina::roce {

class QueuePairs {
 public:
  virtual ~QueuePairs() = default;

  virtual const ConnectionEnd& local() const = 0;
  // Once, before anything is sent. Throws Error.
  virtual void connect(const ConnectionEnd& remote) = 0;

  virtual std::span<std::uint8_t> send_memory() = 0;
  virtual std::span<const std::uint8_t> receive_memory() const = 0;

  // Lets messages begin in a GPU's memory, which is kept; false if the device cannot read it, or there is none (Error).
  virtual bool adopt(const std::function<ExportedMemory()>& allocate) = 0;

  // Queues an RDMA Write with Immediate of bytes in the send memory or the adopted memory (head), and then in the send
  // memory (tail). They must stay until they are overwritten by the next message of this queue. It may be lost, also
  // because the queue is full.
  virtual void post_write(std::size_t queue, std::span<const std::uint8_t> head, std::span<const std::uint8_t> tail,
                          std::uint64_t remote_address, std::uint32_t immediate) = 0;
  // Hands what was posted to the network. A failure is final.
  virtual Status flush() = 0;

  // A message that was written to the receive memory as a whole.
  struct Arrival {
    std::size_t queue;
    std::uint32_t immediate;
    std::size_t bytes;
  };
  // Appends what has arrived, without waiting.
  virtual Status poll(std::vector<Arrival>& arrivals) = 0;
  // Sleeps until something may have arrived, interrupt() was called, or the timeout has passed.
  virtual void wait(Nanoseconds timeout) = 0;
  virtual void interrupt() = 0;  // thread-safe

  // Makes the queue pair take the next message, whatever it waits for; what is queued on it is lost. The next packet it
  // sends has a number that does not follow any that is on its way.
  virtual Status reset(std::size_t queue) = 0;

  // Packets and bytes, of IP packets.
  virtual Counters counters() const = 0;
};

// IP packets and their bytes that a message makes.
constexpr std::size_t packets_of(std::size_t message, std::size_t mtu) {
  return message <= mtu ? 1 : (message + mtu - 1) / mtu;
}
constexpr std::size_t wire_bytes_of(std::size_t message, std::size_t mtu) {
  return (message + 3) / 4 * 4 + sizeof(RethBytes) + sizeof(ImmediateBytes) +
         packets_of(message, mtu) * (20 + 8 + sizeof(BthBytes) + kIcrcSize);
}

}  // namespace jaxina::roce
