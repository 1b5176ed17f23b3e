#include "rdma_engine/transport/endpoint.h"
#include "rdma_engine/transport/rc/ring_endpoint.h"
#include "rdma_engine/transport/rc/socket_ring.h"

namespace jaxina {

std::unique_ptr<Endpoint> make_endpoint(const Membership& member, const RingConfig& config) {
  rc::RingSocketOptions options;
  options.host = config.host;
  options.loss = config.loss.share;
  options.loss_seed = config.loss.seed;
  options.offload = !config.has_switch;
  auto link = std::make_unique<rc::SocketRing>(options, member.shape);
  link->connect(config.exchange(link->local()));
  return rc::make_ring_endpoint(member, std::move(link), !config.has_switch);
}

}  // namespace jaxina
