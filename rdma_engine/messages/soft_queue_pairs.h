// SoftQueuePairs: UC queue pairs in software. It handles sequence numbers and memory, and writes the payload of
// arriving packets. A derived class carries the packets: over a socket, or in the simulator.
#pragma once

#include <vector>

#include "rdma_engine/messages/in_memory.h"
#include "rdma_engine/messages/write_responder.h"
#include "rdma_engine/wire/write.h"

namespace jaxina::roce {

class SoftQueuePairs : public InMemory<QueuePairs> {
 public:
  const ConnectionEnd& local() const final { return local_; }
  void post_write(std::size_t queue, std::span<const std::uint8_t> head, std::span<const std::uint8_t> tail,
                  std::uint64_t remote_address, std::uint32_t immediate) final;
  Status reset(std::size_t queue) final;

 protected:
  // `local` gives the address, port, MTU, first sequence number, rkey and first queue pair number.
  SoftQueuePairs(ConnectionEnd local, std::size_t queues, std::size_t send_bytes, std::size_t receive_bytes);

  // Connects to the peer. `peer` is its address as the socket or the simulator knows it. Throws Error.
  void connect_to(const ConnectionEnd& remote, const Address& peer);
  const Address& peer() const { return peer_; }

  // Sends the packets of a write, with at most `mtu` bytes of payload each. `psn` is the first packet's sequence
  // number; on return it is the next write's.
  virtual void send(const Write& write, std::size_t mtu, std::uint32_t& psn) = 0;

  // Whether this is the number of one of these queue pairs.
  bool has(std::uint32_t qpn) const { return qpn - local_.qpns.front() < queues_.size(); }
  // Processes a sound packet from the peer to one of these queue pairs. Returns false if it was dropped.
  bool on_packet(const Packet& packet, std::vector<Arrival>& arrivals);

 private:
  struct Queue {
    WriteResponder responder;
    std::uint32_t psn;  // of the next packet to send
  };
  ConnectionEnd remote_;
  Address peer_;
  std::size_t mtu_;
  std::vector<Queue> queues_;
};

}  // namespace jaxina::roce
