// DatagramEngine: one port of the software switch: a UDP socket, and behind it the aggregators of the jobs that are
// summed here, and the combiner of those whose updates are only combined on their way to a server.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>

#include "rdma_engine/combiner/combiner.h"
#include "rdma_engine/datagrams/datagram_aggregator.h"
#include "rdma_engine/encryption/encrypted_end.h"
#include "rdma_engine/net/datagram_receiver.h"
#include "rdma_engine/net/datagram_sender.h"
#include "rdma_engine/net/loss_filter.h"
#include "rdma_engine/net/udp_socket.h"
#include "rdma_engine/switch/packet_engine.h"
#include "rdma_engine/switch/switch_counters.h"

namespace jaxina {

class DatagramEngine final : public PacketEngine {
 public:
  // This thread's part of a job, which is either summed here or combined on its way to its servers.
  struct Job {
    std::unique_ptr<DatagramJob> aggregated;
    std::unique_ptr<CombinedJob> combined;
    std::unique_ptr<encryption::EncryptedEnd> end;  // null: its packets are in the clear
  };

  DatagramEngine(const Address& local, double loss, std::uint64_t loss_seed, const CombinerOptions& combining);

  const net::UdpSocket& socket() const { return socket_; }

  std::size_t turn() override;
  void flush() override { output_.flush(); }
  void wait(Nanoseconds timeout) override { socket_.wait_readable(timeout); }
  void interrupt() override { socket_.interrupt(); }

  // See Lanes.
  bool add(std::unique_ptr<Job> job);
  std::unique_ptr<Job> remove(std::uint32_t job);
  void abort(std::uint32_t job, const Status& reason);
  const Aggregator* find(std::uint32_t job) const { return aggregators_.find(job); }
  const Counters* counters_of(std::uint32_t job) const;
  void count(SwitchCounters& counters) const;

 private:
  // Copies the packets of the aggregators into the sender's arena, or encrypts them to there. A result for all workers
  // is copied or encrypted once: they all have the key.
  class Output final : public PacketOutput {
   public:
    explicit Output(net::DatagramSender& sender) : sender_(sender) {}
    void send(const Address& to, std::span<const std::uint8_t> packet) override;
    // What comes next is of a job with this end; null: of one whose packets are in the clear. The aggregators' buffers
    // may have changed, so the last copy is not used again.
    void begin(encryption::EncryptedEnd* end) {
      end_ = end;
      source_ = {};
    }
    void flush();

   private:
    std::uint8_t* reserve(std::size_t size);
    bool is_copied(std::span<const std::uint8_t> packet) const;

    net::DatagramSender& sender_;
    encryption::EncryptedEnd* end_ = nullptr;
    std::span<const std::uint8_t> source_, copy_;
    std::array<std::uint8_t, wire::kHeaderSize> header_{};  // of what was copied last
  };

  void on_packet(std::span<std::uint8_t> packet, const Address& from);
  void on_encrypted(std::span<std::uint8_t> packet, const Address& from);
  // Null if there is no such job, or its packets are in the clear.
  encryption::EncryptedEnd* end_of(std::uint32_t job) const;

  net::UdpSocket socket_;
  net::DatagramReceiver receiver_;
  net::DatagramSender sender_;
  net::LossFilter loss_;
  DatagramAggregator aggregators_;
  std::unordered_map<std::uint32_t, std::unique_ptr<encryption::EncryptedEnd>> ends_;  // of jobs with encrypted packets
  Counters not_decrypted_;
  Combiner combiner_;
  Nanoseconds turn_began_ = 0;
  Output output_;
  std::uint64_t packets_received_ = 0;
  std::uint64_t packets_dropped_ = 0;
};

}  // namespace jaxina
