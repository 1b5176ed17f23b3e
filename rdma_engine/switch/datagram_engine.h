// DatagramEngine: one port of the software switch: a UDP socket, and behind it the aggregators of the jobs that are
// summed here, and the combiner of those whose updates are only combined on their way to a server.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "rdma_engine/combiner/combiner.h"
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

  DatagramEngine(const Address& local, double loss, std::uint64_t loss_seed, const CombinerOptions& combining);

  const net::UdpSocket& socket() const { return socket_; }

  std::size_t turn() override;
  void flush() override { output_.flush(); }
  void wait(Nanoseconds timeout) override { socket_.wait_readable(timeout); }
  void interrupt() override { socket_.interrupt(); }

  // See Lanes.
  bool add(std::unique_ptr<Job> job) { return aggregators_.add(std::move(job)); }
  // Adds a job whose updates are combined here, on their way to its servers.
  bool add(const CombinedJobSpec& job) { return combiner_.add(job); }
  std::unique_ptr<Job> remove(std::uint32_t job) {
    combiner_.remove(job);
    return aggregators_.remove(job);
  }
  void abort(std::uint32_t job, const Status& reason) { aggregators_.abort(job, reason, output_); }
  const Aggregator* find(std::uint32_t job) const { return aggregators_.find(job); }
  const Counters* counters_of(std::uint32_t job) const;
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
  Combiner combiner_;
  Nanoseconds turn_began_ = 0;
  Output output_;
  std::uint64_t packets_received_ = 0;
  std::uint64_t packets_dropped_ = 0;
};

}  // namespace jaxina
