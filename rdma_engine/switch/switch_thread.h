// One data thread of the software switch: a socket, an aggregator, and the loop between them.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "rdma_engine/aggregator/aggregator.h"
#include "rdma_engine/transport/udp/datagram_receiver.h"
#include "rdma_engine/transport/udp/datagram_sender.h"
#include "rdma_engine/transport/udp/loss_filter.h"
#include "rdma_engine/transport/udp/udp_socket.h"

namespace jaxina {

class SwitchThread {
 public:
  SwitchThread(const Address& local, double loss, std::uint64_t loss_seed);
  ~SwitchThread();

  std::uint16_t port() const { return udp::port_of(socket_.local()); }
  std::size_t receive_capacity() const { return socket_.receive_capacity(); }

  // Runs on the data thread, which owns everything a command may touch.
  using Command = std::function<void(SwitchThread&)>;
  void post(Command command);

  // For commands only.
  Aggregator& aggregator() { return aggregator_; }
  Aggregator::Output& output() { return output_; }
  std::uint64_t packets_received() const { return packets_received_; }
  std::uint64_t packets_dropped() const { return packets_dropped_; }
  std::uint64_t packets_unsent() const { return sender_.packets_unsent(); }

 private:
  // Copies what the aggregator sends into the sender's arena; a result for all workers is copied once.
  class Output final : public Aggregator::Output {
   public:
    explicit Output(udp::DatagramSender& sender) : sender_(sender) {}
    void send(const Address& to, std::span<const std::uint8_t> packet) override;
    // The aggregator's buffers may have changed: copies made so far stand for nothing else.
    void forget_copy() { source_ = {}; }
    void flush();

   private:
    udp::DatagramSender& sender_;
    std::span<const std::uint8_t> source_, copy_;
  };

  void run();
  void run_commands();
  void on_packet(std::span<const std::uint8_t> packet, const Address& from);

  udp::UdpSocket socket_;
  udp::DatagramReceiver receiver_;
  udp::DatagramSender sender_;
  udp::LossFilter loss_;
  Aggregator aggregator_;
  Output output_;
  std::uint64_t packets_received_ = 0;
  std::uint64_t packets_dropped_ = 0;

  std::mutex mutex_;  // of commands_; the loop takes it only when has_commands_ is set
  std::vector<Command> commands_;
  std::atomic<bool> has_commands_ = false;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace jaxina
