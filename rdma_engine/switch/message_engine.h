// MessageEngine: the RDMA port of the software switch: a RoCEv2 socket and the aggregators behind it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "rdma_engine/messages/message_aggregator.h"
#include "rdma_engine/net/loss_filter.h"
#include "rdma_engine/net/roce_socket.h"
#include "rdma_engine/switch/packet_engine.h"
#include "rdma_engine/switch/switch_counters.h"

namespace jaxina {

class MessageEngine final : public PacketEngine {
 public:
  using Job = MessageJob;

  struct Config {
    std::string address;
    std::uint16_t port = 0;
    roce::IcrcPolicy icrc = roce::IcrcPolicy::kCheck;
    double loss = 0;
    std::uint64_t loss_seed = 0;
    bool offload = true;
  };
  explicit MessageEngine(const Config& config);

  const roce::RoceSocket& socket() const { return socket_; }
  MessageAggregator& aggregators() { return aggregators_; }

  std::size_t turn() override;
  void flush() override;
  void wait(Nanoseconds timeout) override { socket_.wait(timeout); }
  void interrupt() override { socket_.interrupt(); }

  // See Lanes.
  bool add(std::unique_ptr<Job> job) { return aggregators_.add(std::move(job)); }
  std::unique_ptr<Job> remove(std::uint32_t job) { return aggregators_.remove(job); }
  void abort(std::uint32_t job, const Status& reason) { aggregators_.abort(job, reason, output_); }
  const Aggregator* find(std::uint32_t job);
  const Counters* counters_of(std::uint32_t job);
  void count(SwitchCounters& counters) const;

 private:
  class Output final : public MessageAggregator::Output {
   public:
    explicit Output(roce::RoceSocket& socket) : socket_(socket) {}
    void send(const roce::Write& write, std::size_t mtu, std::uint32_t& psn) override { socket_.send(write, mtu, psn); }

   private:
    roce::RoceSocket& socket_;
  };

  roce::RoceSocket socket_;
  net::LossFilter loss_;
  MessageAggregator aggregators_;
  Output output_;
  std::uint64_t packets_dropped_ = 0;
};

}  // namespace jaxina
