// What the simulator's protocols for datagrams share.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

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

WorkerEnd::Kind kind_of(Session::Reply reply);
std::optional<Protocol::Description> describe_datagram(const Packet& packet);

}  // namespace jaxina::sim
