#include "rdma_engine/net/socket_address.h"
#include "rdma_engine/net/udp_socket.h"
#include "rdma_engine/transport/endpoint.h"
#include "rdma_engine/transport/roce/rdma_endpoint.h"
#include "rdma_engine/transport/roce/socket_queue_pairs.h"

namespace jaxina {

std::unique_ptr<Endpoint> make_endpoint(const Membership& member, const RoceConfig& config) {
  roce::SocketOptions options;
  const Address address = net::resolve(config.address, roce::kUdpPort, ErrorCode::kSwitchUnreachable);
  options.host = net::route_source(address);
  options.mtu = roce::mtu_within(net::route_mtu(address));  // just as a NIC's MTU follows from its port's
  if (!config.checksums) options.icrc = roce::IcrcPolicy::kIgnore;
  options.loss = config.loss.share;
  options.loss_seed = config.loss.seed;
  return roce::make_rdma_endpoint(
      member,
      [&](std::size_t queues, std::size_t send_bytes, std::size_t receive_bytes) {
        return std::make_unique<roce::SocketQueuePairs>(options, queues, send_bytes, receive_bytes);
      },
      config.exchange);
}

}  // namespace jaxina
