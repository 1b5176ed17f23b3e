// UC queue pairs made by the processor: numbers, sequence, memory and what arriving packets write. Who derives from it
// carries the packets: a socket, or the simulator.
#pragma once

#include <memory>
#include <vector>

#include "rdma_engine/messages/message_memory.h"
#include "rdma_engine/messages/queue_pairs.h"
#include "rdma_engine/messages/write_responder.h"
#include "rdma_engine/wire/write.h"

namespace jaxina::roce {

class SoftQueuePairs : public QueuePairs {
 public:
  const ConnectionEnd& local() const final { return local_; }
  std::span<std::uint8_t> send_memory() final { return send_.bytes(); }
  std::span<const std::uint8_t> receive_memory() const final { return receive_.bytes(); }
  bool adopt(const std::function<ExportedMemory()>&) final {
    return false;
  }  // packets are put together by the processor
  void post_write(std::size_t queue, std::span<const std::uint8_t> head, std::span<const std::uint8_t> tail,
                  std::uint64_t remote_address, std::uint32_t immediate) final;
  Status reset(std::size_t queue) final;

 protected:
  // Where the receive memory seems to lie: the peer's addresses are offsets from here, never pointers of this process.
  static constexpr std::uint64_t kBase = std::uint64_t{1} << 32;

  // `local` says address, port, MTU, the first sequence number, the rkey and the first of the queue pairs' numbers.
  SoftQueuePairs(ConnectionEnd local, std::size_t queues, std::size_t send_bytes, std::size_t receive_bytes);

  // To the peer, as a socket or the simulator knows it. Throws Error.
  void connect_to(const ConnectionEnd& remote, const Address& peer);
  const Address& peer() const { return peer_; }

  // Carries the packets of a write, of at most `mtu` bytes of payload. `psn` is the first one's number, and then the
  // next one's.
  virtual void send(const Write& write, std::size_t mtu, std::uint32_t& psn) = 0;

  // Whether a packet is for one of these.
  bool has(std::uint32_t qpn) const { return qpn - local_.qpns.front() < queues_.size(); }
  // A sound packet of the peer for one of these. False if it was of no use.
  bool on_packet(const Packet& packet, std::vector<Arrival>& arrivals);

 private:
  std::uint8_t* resolve(const Headers& headers);

  struct Queue {
    WriteResponder responder;
    std::uint32_t psn;  // of the next packet to send
  };
  ConnectionEnd local_, remote_;
  Address peer_;
  std::size_t mtu_;
  MessageMemory send_, receive_;
  std::vector<Queue> queues_;
};

}  // namespace jaxina::roce
