// MessageQueues: queues of RDMA writes, and the memory in which the other side's writes arrive. This is what a message
// session needs from an RDMA device. QueuePairs: such queues that are unreliable-connection (UC) queue pairs, which all
// lead to one peer. libibverbs, a socket or the simulator implement them. They belong to one thread, except
// interrupt().
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

class MessageQueues {
 public:
  virtual ~MessageQueues() = default;

  virtual std::span<std::uint8_t> send_memory() = 0;
  virtual std::span<const std::uint8_t> receive_memory() const = 0;

  // Tries to place the words of messages in a GPU's memory, and keeps that memory. Returns false if the device cannot
  // read it, or if `allocate` throws Error because there is none.
  virtual bool adopt(const std::function<ExportedMemory()>& allocate) = 0;

  // Queues an RDMA Write with Immediate. `head` is in the send memory or in the adopted memory, `tail` is in the send
  // memory. The bytes must stay until the next message of this queue overwrites them. The message may be lost, for
  // example because the queue is full.
  virtual void post_write(std::size_t queue, std::span<const std::uint8_t> head, std::span<const std::uint8_t> tail,
                          std::uint64_t remote_address, std::uint32_t immediate) = 0;
  // Passes the posted messages to the network. A failure is final.
  virtual Status flush() = 0;

  // A message that was completely written to the receive memory.
  struct Arrival {
    std::size_t queue;
    std::uint32_t immediate;
    std::size_t bytes;
  };
  // Appends messages that have arrived. Does not wait. If it leaves some, wait() returns at once.
  virtual Status poll(std::vector<Arrival>& arrivals) = 0;
  // Sleeps until something may have arrived, interrupt() is called, or the timeout passes.
  virtual void wait(Nanoseconds timeout) = 0;
  virtual void interrupt() = 0;  // thread-safe

  // Makes the queue pair accept the next message, whatever it is waiting for. Messages that are queued on it are lost.
  // Its next packet gets a sequence number that does not follow that of any packet on the way.
  virtual Status reset(std::size_t queue) = 0;

  // Counts packets and bytes of IP packets.
  virtual Counters counters() const = 0;
};

class QueuePairs : public MessageQueues {
 public:
  virtual const ConnectionEnd& local() const = 0;
  // Called once, before anything is sent. Throws Error.
  virtual void connect(const ConnectionEnd& remote) = 0;
};

// The number of IP packets that a message takes, and their total bytes.
constexpr std::size_t packets_of(std::size_t message, std::size_t mtu) {
  return message <= mtu ? 1 : (message + mtu - 1) / mtu;
}
constexpr std::size_t wire_bytes_of(std::size_t message, std::size_t mtu) {
  return (message + 3) / 4 * 4 + sizeof(RethBytes) + sizeof(ImmediateBytes) +
         packets_of(message, mtu) * (20 + 8 + sizeof(BthBytes) + kIcrcSize);
}

}  // namespace jaxina::roce
