// SocketQueuePairs: an RDMA device in user space, for hosts without a NIC: UC queue pairs over a UDP socket.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "rdma_engine/messages/soft_queue_pairs.h"
#include "rdma_engine/net/loss_filter.h"
#include "rdma_engine/net/roce_socket.h"

namespace jaxina::roce {

struct SocketOptions {
  std::string host;        // one IPv4 address of this host
  std::uint16_t port = 0;  // 0: any port. A peer that is a NIC sends only to kUdpPort
  std::size_t mtu = 1024;
  IcrcPolicy icrc = IcrcPolicy::kCheck;
  double loss = 0;  // share of arriving packets to drop, for experiments
  std::uint64_t loss_seed = 0;
  std::uint32_t first_psn = 0;
};

class SocketQueuePairs final : public SoftQueuePairs {
 public:
  // Throws Error like RoceSocket.
  SocketQueuePairs(const SocketOptions& options, std::size_t queues, std::size_t send_bytes, std::size_t receive_bytes);

  void connect(const ConnectionEnd& remote) override;
  Status flush() override { return socket_->flush(); }
  Status poll(std::vector<Arrival>& arrivals) override;
  void wait(Nanoseconds timeout) override { socket_->wait(timeout); }
  void interrupt() override { socket_->interrupt(); }
  Counters counters() const override;

 private:
  SocketQueuePairs(const SocketOptions& options, std::unique_ptr<RoceSocket> socket, std::size_t queues,
                   std::size_t send_bytes, std::size_t receive_bytes);
  void send(const Write& write, std::size_t mtu, std::uint32_t& psn) override { socket_->send(write, mtu, psn); }

  std::unique_ptr<RoceSocket> socket_;
  net::LossFilter loss_;
  std::uint64_t dropped_ = 0, rejected_ = 0;
};

}  // namespace jaxina::roce
