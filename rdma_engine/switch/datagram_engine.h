// DatagramEngine: one port of the software switch: a UDP socket and the aggregators behind it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "rdma_engine/datagrams/datagram_aggregator.h"
#include "rdma_engine/net/datagram_receiver.h"
#include "rdma_engine/net/datagram_sender.h"
#include "rdma_engine/net/loss_filter.h"
#include "rdma_engine/net/udp_socket.h"
#include "rdma_engine/switch/packet_engine.h"
#include "rdma_engine/switch/switch_counters.h"

namespace jaxina {

class DatagramEngine final : public PacketEngine {
 public:
  using Job = DatagramJob;

  DatagramEngine(const Address& local, double loss, std::uint64_t loss_seed);

  const net::UdpSocket& socket() const { return socket_; }

  std::size_t turn() override;
  void flush() override { output_.flush(); }
  void wait(Nanoseconds timeout) override { socket_.wait_readable(timeout); }
  void interrupt() override { socket_.interrupt(); }

  // See Lanes.
  bool add(std::unique_ptr<Job> job) { return aggregators_.add(std::move(job)); }
  std::unique_ptr<Job> remove(std::uint32_t job) { return aggregators_.remove(job); }
  void abort(std::uint32_t job, const Status& reason) { aggregators_.abort(job, reason, output_); }
  const Aggregator* find(std::uint32_t job) const { return aggregators_.find(job); }
  void count(SwitchCounters& counters) const;

 private:
  // Copies the packets of the aggregators into the sender's arena. A result for all workers is copied once.
  class Output final : public PacketOutput {
   public:
    explicit Output(net::DatagramSender& sender) : sender_(sender) {}
    void send(const Address& to, std::span<const std::uint8_t> packet) override;
    // The aggregators' buffers may have changed, so the last copy must not be used again.
    void forget_copy() { source_ = {}; }
    void flush();

   private:
    net::DatagramSender& sender_;
    std::span<const std::uint8_t> source_, copy_;
  };

  void on_packet(std::span<const std::uint8_t> packet, const Address& from);

  net::UdpSocket socket_;
  net::DatagramReceiver receiver_;
  net::DatagramSender sender_;
  net::LossFilter loss_;
  DatagramAggregator aggregators_;
  Output output_;
  std::uint64_t packets_received_ = 0;
  std::uint64_t packets_dropped_ = 0;
};

}  // namespace jaxina
