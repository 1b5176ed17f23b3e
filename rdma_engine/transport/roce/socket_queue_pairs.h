// A user-space RDMA device: UC queue pairs over a UDP socket, for hosts without a NIC.
#pragma once

#include <memory>
#include <vector>

#include "rdma_engine/transport/roce/message_memory.h"
#include "rdma_engine/messages/queue_pairs.h"
#include "rdma_engine/net/roce_socket.h"
#include "rdma_engine/messages/write_responder.h"
#include "rdma_engine/net/loss_filter.h"

namespace jaxina::roce {

struct SocketOptions {
  std::string host;        // one IPv4 address of this host
  std::uint16_t port = 0;  // 0: any. A peer that is a NIC sends to kUdpPort only
  std::size_t mtu = 1024;
  IcrcPolicy icrc = IcrcPolicy::kCheck;
  double loss = 0;  // share of arriving packets to drop, for experiments
  std::uint64_t loss_seed = 0;
  std::uint32_t first_psn = 0;
};

class SocketQueuePairs final : public QueuePairs {
 public:
  // Throws Error: see RoceSocket.
  SocketQueuePairs(const SocketOptions& options, std::size_t queues, std::size_t send_bytes, std::size_t receive_bytes);

  const ConnectionEnd& local() const override { return local_; }
  void connect(const ConnectionEnd& remote) override;
  std::span<std::uint8_t> send_memory() override { return send_.bytes(); }
  std::span<const std::uint8_t> receive_memory() const override { return receive_.bytes(); }
  bool adopt(const std::function<ExportedMemory()>&) override { return false; }  // packets are put together by the processor
  void post_write(std::size_t queue, std::span<const std::uint8_t> head, std::span<const std::uint8_t> tail,
                  std::uint64_t remote_address, std::uint32_t immediate) override;
  Status flush() override { return socket_.flush(); }
  Status poll(std::vector<Arrival>& arrivals) override;
  void wait(Nanoseconds timeout) override { socket_.wait(timeout); }
  void interrupt() override { socket_.interrupt(); }
  Status reset(std::size_t queue) override;
  Counters counters() const override;

 private:
  void on_packet(const Packet& packet, std::vector<Arrival>& arrivals);
  std::uint8_t* resolve(const Headers& headers);

  struct Queue {
    WriteResponder responder;
    std::uint32_t psn;  // of the next packet to send
  };
  RoceSocket socket_;
  std::size_t mtu_;
  udp::LossFilter loss_;
  MessageMemory send_, receive_;
  std::vector<Queue> queues_;
  ConnectionEnd local_, remote_;
  Address peer_;
  std::uint64_t dropped_ = 0, rejected_ = 0;
};

}  // namespace jaxina::roce
