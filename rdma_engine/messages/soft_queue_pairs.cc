#include "rdma_engine/messages/soft_queue_pairs.h"

#include <algorithm>
#include <utility>

#include "rdma_engine/base/narrow.h"

namespace jaxina::roce {

SoftQueuePairs::SoftQueuePairs(ConnectionEnd local, std::size_t queues, std::size_t send_bytes,
                               std::size_t receive_bytes)
    : InMemory(std::move(local), send_bytes, receive_bytes), mtu_(local_.mtu), queues_(queues, Queue{{}, local_.psn}) {
  while (local_.qpns.size() < queues) local_.qpns.push_back(local_.qpns.back() + 1);
}

void SoftQueuePairs::connect_to(const ConnectionEnd& remote, const Address& peer) {
  if (remote.qpns.size() != queues_.size()) {
    throw Error(ErrorCode::kInvalidArgument, "the switch must offer one queue pair for each of ours");
  }
  remote_ = remote;
  peer_ = peer;
  mtu_ = std::min<std::size_t>(mtu_, remote.mtu);
}

void SoftQueuePairs::post_write(std::size_t queue, std::span<const std::uint8_t> head,
                                std::span<const std::uint8_t> tail, std::uint64_t remote_address,
                                std::uint32_t immediate) {
  send({.peer = peer_,
        .qpn = remote_.qpns[queue],
        .rkey = remote_.rkey,
        .address = remote_address,
        .immediate = immediate,
        .head = head,
        .tail = tail},
       mtu_, queues_[queue].psn);
}

bool SoftQueuePairs::on_packet(const Packet& packet, std::vector<Arrival>& arrivals) {
  const std::size_t queue = packet.headers.qpn - local_.qpns.front();
  WriteResponder& responder = queues_[queue].responder;
  switch (responder.on_packet(packet, mtu_, [this](const Headers& headers) { return resolve(headers); })) {
    case Placement::kPlaced: return true;
    case Placement::kComplete:
      arrivals.push_back({queue, responder.message().immediate, responder.message().length});
      return true;
    case Placement::kOutOfSequence:
    case Placement::kBadLength:
    case Placement::kNoAccess: break;
  }
  return false;
}

Status SoftQueuePairs::reset(std::size_t queue) {
  // The sequence numbers of outgoing packets go on. If they were used again, packets that are still on the way would
  // seem to follow those of the next message.
  queues_[queue].responder = {};
  return {};
}

}  // namespace jaxina::roce
