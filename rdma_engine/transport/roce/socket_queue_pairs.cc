#include "rdma_engine/transport/roce/socket_queue_pairs.h"

#include <algorithm>
#include <random>

#include "rdma_engine/net/socket_address.h"

namespace jaxina::roce {
namespace {

// Where the receive memory seems to lie: the peer's addresses are offsets from here, never pointers of this process.
constexpr std::uint64_t kBase = std::uint64_t{1} << 32;

}  // namespace

SocketQueuePairs::SocketQueuePairs(const SocketOptions& options, std::size_t queues, std::size_t send_bytes,
                                   std::size_t receive_bytes)
    : socket_(options.host, options.port, options.icrc, udp::WhenFull::kWait),
      mtu_(options.mtu),
      loss_(options.loss, options.loss_seed),
      send_(send_bytes),
      receive_(receive_bytes),
      queues_(queues, Queue{{}, options.first_psn & kMask24}) {
  std::random_device random;
  local_ = {socket_.address(), socket_.port(), static_cast<std::uint32_t>(mtu_), {}, options.first_psn & kMask24,
            random(), kBase};
  const auto first = static_cast<std::uint32_t>(random() % (kMask24 - queues));
  for (std::size_t i = 0; i < queues; ++i) local_.qpns.push_back(first + static_cast<std::uint32_t>(i));
}

void SocketQueuePairs::connect(const ConnectionEnd& remote) {
  if (remote.qpns.size() != queues_.size()) {
    throw Error(ErrorCode::kInvalidArgument, "the switch must offer one queue pair for each of ours");
  }
  remote_ = remote;
  mtu_ = std::min<std::size_t>(mtu_, remote.mtu);
  peer_ = udp::resolve(remote.address, remote.udp_port, ErrorCode::kSwitchUnreachable);
  udp::route_mtu(peer_);  // throws if there is no route
}

void SocketQueuePairs::post_write(std::size_t queue, std::span<const std::uint8_t> head, std::span<const std::uint8_t> tail,
                                  std::uint64_t remote_address, std::uint32_t immediate) {
  socket_.send({.peer = peer_, .qpn = remote_.qpns[queue], .rkey = remote_.rkey, .address = remote_address,
                .immediate = immediate, .head = head, .tail = tail},
               mtu_, queues_[queue].psn);
}

Status SocketQueuePairs::poll(std::vector<Arrival>& arrivals) {
  const auto is_known = [this](const Headers& headers, const Address& from) {
    if (headers.qpn - local_.qpns.front() < queues_.size() && udp::same_host(from, peer_)) return true;
    ++rejected_;
    return false;
  };
  while (socket_.receive(is_known, [&](const Packet& packet, const Address&) { on_packet(packet, arrivals); }) > 0 &&
         arrivals.empty()) {
  }
  return {};
}

void SocketQueuePairs::on_packet(const Packet& packet, std::vector<Arrival>& arrivals) {
  if (loss_.drops()) {
    ++dropped_;
    return;
  }
  const std::size_t queue = packet.headers.qpn - local_.qpns.front();
  WriteResponder& responder = queues_[queue].responder;
  switch (responder.on_packet(packet, mtu_, [this](const Headers& headers) { return resolve(headers); })) {
    case Placement::kPlaced:
      return;
    case Placement::kComplete:
      arrivals.push_back({queue, responder.message().immediate, responder.message().length});
      return;
    case Placement::kOutOfSequence:
    case Placement::kBadLength:
    case Placement::kNoAccess:
      ++rejected_;
      return;
  }
}

std::uint8_t* SocketQueuePairs::resolve(const Headers& headers) {
  const std::uint64_t offset = headers.address - kBase;
  const std::span<std::uint8_t> memory = receive_.bytes();
  const bool inside = headers.address >= kBase && offset <= memory.size() && headers.length <= memory.size() - offset;
  return inside && headers.rkey == local_.rkey ? memory.data() + offset : nullptr;
}

Status SocketQueuePairs::reset(std::size_t queue) {
  queues_[queue] = {{}, local_.psn};
  return {};
}

Counters SocketQueuePairs::counters() const {
  Counters counters = socket_.counters();
  counters[Counter::kPacketsReceived] -= dropped_;
  counters[Counter::kPacketsDropped] = dropped_;
  counters[Counter::kPacketsRejected] =
      rejected_ + counters[Counter::kRdmaMalformed] + counters[Counter::kRdmaWrongIcrc];
  return counters;
}

}  // namespace jaxina::roce
