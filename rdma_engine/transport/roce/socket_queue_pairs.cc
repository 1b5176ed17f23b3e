#include "rdma_engine/transport/roce/socket_queue_pairs.h"

#include <random>
#include <utility>

#include "rdma_engine/base/narrow.h"
#include "rdma_engine/net/socket_address.h"

namespace jaxina::roce {
namespace {

ConnectionEnd local_end(const SocketOptions& options, const RoceSocket& socket, std::size_t queues) {
  std::random_device random;
  return {.address = socket.address(),
          .udp_port = socket.port(),
          .mtu = narrow<std::uint32_t>(options.mtu),
          .qpns = {narrow<std::uint32_t>(random() % (kMask24 - queues))},
          .psn = options.first_psn & kMask24,
          .rkey = random()};
}

}  // namespace

SocketQueuePairs::SocketQueuePairs(const SocketOptions& options, std::size_t queues, std::size_t send_bytes,
                                   std::size_t receive_bytes)
    : SocketQueuePairs(options,
                       std::make_unique<RoceSocket>(options.host, options.port, options.icrc, net::WhenFull::kWait),
                       queues, send_bytes, receive_bytes) {}

SocketQueuePairs::SocketQueuePairs(const SocketOptions& options, std::unique_ptr<RoceSocket> socket, std::size_t queues,
                                   std::size_t send_bytes, std::size_t receive_bytes)
    : SoftQueuePairs(local_end(options, *socket, queues), queues, send_bytes, receive_bytes),
      socket_(std::move(socket)),
      loss_(options.loss, options.loss_seed) {}

void SocketQueuePairs::connect(const ConnectionEnd& remote) {
  connect_to(remote, net::resolve(remote.address, remote.udp_port, ErrorCode::kSwitchUnreachable));
  net::route_mtu(peer());  // throws if there is no route
}

Status SocketQueuePairs::poll(std::vector<Arrival>& arrivals) {
  const auto is_known = [this](const Headers& headers, const Address& from) {
    if (has(headers.qpn) && net::same_host(from, peer())) return true;
    ++rejected_;
    return false;
  };
  const auto visit = [&](const Packet& packet, const Address&) {
    if (loss_.drops()) ++dropped_;
    else if (!on_packet(packet, arrivals)) ++rejected_;
  };
  for (int batch = 0; batch < kBatchesInARow && socket_->receive(is_known, visit) > 0 && arrivals.empty(); ++batch) {
  }
  return {};
}

Counters SocketQueuePairs::counters() const {
  Counters counters = socket_->counters();
  counters[Counter::kPacketsReceived] -= dropped_;
  counters[Counter::kPacketsDropped] = dropped_;
  counters[Counter::kPacketsRejected] =
      rejected_ + counters[Counter::kRdmaMalformed] + counters[Counter::kRdmaWrongIcrc];
  return counters;
}

}  // namespace jaxina::roce
