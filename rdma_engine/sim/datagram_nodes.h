// What the simulator's protocols for datagrams share.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "rdma_engine/datagrams/packet_output.h"
#include "rdma_engine/datagrams/session.h"
#include "rdma_engine/sim/protocol.h"

namespace jaxina::sim {

// Sends the packets of one node.
class NodeOutput final : public PacketOutput {
 public:
  NodeOutput(Protocol::Output& output, std::uint16_t node) : output_(output), node_(node) {}
  void send(const Address& to, std::span<const std::uint8_t> packet) override {
    output_.send(node_, host_at(to), packet);
  }

 private:
  Protocol::Output& output_;
  std::uint16_t node_;
};

// A worker's end. Slot i is summed at servers[i % size]. A switch on the way may combine its updates.
class DatagramEnd final : public WorkerEnd {
 public:
  DatagramEnd(const SessionConfig& config, std::vector<std::uint16_t> servers,
              std::optional<std::uint16_t> on_the_way = std::nullopt)
      : session_(config), servers_(std::move(servers)), switch_(on_the_way) {}

  Worker& worker() override { return session_.worker(); }
  std::optional<Pass> send_next(Nanoseconds now, WorkerEnd::Output& output) override;
  bool has_network_card() const override { return false; }
  void arrive(const Packet& packet, Nanoseconds, WorkerEnd::Output&) override { arrived_ = &packet; }
  std::optional<Reply> next_reply(Nanoseconds now, Origin& origin) override;

 private:
  std::uint16_t server(std::uint16_t slot) const { return servers_[slot % servers_.size()]; }

  Session session_;
  std::vector<std::uint16_t> servers_;
  std::optional<std::uint16_t> switch_;
  const Packet* arrived_ = nullptr;
};

std::optional<Protocol::Description> describe_datagram(const Packet& packet);

}  // namespace jaxina::sim
