#include "rdma_engine/sim/datagram_nodes.h"

#include "rdma_engine/base/narrow.h"
#include "rdma_engine/sim/trace.h"

namespace jaxina::sim {
namespace {

WorkerEnd::Kind kind_of(Session::Reply reply) {
  switch (reply) {
    case Session::Reply::kResult: return WorkerEnd::Kind::kResult;
    case Session::Reply::kStale: return WorkerEnd::Kind::kStale;
    case Session::Reply::kPending: return WorkerEnd::Kind::kPending;
    case Session::Reply::kRefused: return WorkerEnd::Kind::kRefused;
    case Session::Reply::kAborted: return WorkerEnd::Kind::kAborted;
  }
  return WorkerEnd::Kind::kStale;
}

}  // namespace

std::optional<Pass> DatagramEnd::send_next(Nanoseconds now, WorkerEnd::Output& output) {
  Packet packet;
  const auto outgoing = session_.next_packet(now, packet.bytes.data());
  if (!outgoing) return std::nullopt;
  const bool direct = !switch_ || outgoing->transmission == wire::Transmission::kDirect;
  packet.size = narrow<std::uint16_t>(outgoing->size);
  packet.to = direct ? server(outgoing->pass.slot) : *switch_;
  packet.origin.slot = outgoing->pass.slot;
  packet.origin.epoch = outgoing->pass.epoch;
  packet.origin.repeated = outgoing->pass.retransmission();
  output.send(packet);
  return outgoing->pass;
}

std::optional<WorkerEnd::Reply> DatagramEnd::next_reply(Nanoseconds now, Origin& origin) {
  const Packet* packet = std::exchange(arrived_, nullptr);
  const std::optional<wire::Header> header = packet != nullptr ? session_.accept(packet->view()) : std::nullopt;
  if (!header) return std::nullopt;
  origin = packet->origin;
  Session::Reply reply;
  if (switch_ && packet->from == *switch_) reply = session_.on_switch_reply(*header, packet->view(), now);
  else if (packet->from == server(header->slot)) reply = session_.on_reply(*header, packet->view(), now);
  else return std::nullopt;
  return Reply{kind_of(reply), *header, packet->view().subspan(wire::kHeaderSize)};
}

std::optional<Protocol::Description> describe_datagram(const Packet& packet) {
  wire::Header header;
  if (wire::parse(packet.view(), header) != wire::ParseResult::kOk) return std::nullopt;
  const bool look_ahead = !wire::is_reply(header.kind) && header.words == 0;
  return Protocol::Description{header.kind == wire::Kind::kAbort ? Trace::kEverySlot : header.slot,
                               std::string(to_string(header.kind)) + " epoch " + std::to_string(header.epoch) +
                                   (look_ahead ? " (exponents only)" : "")};
}

}  // namespace jaxina::sim
