// make_ring_endpoint: the endpoint of a worker in a ring of reliable connections. It drives a message session with real
// time over a link.
#pragma once

#include <memory>

#include "rdma_engine/transport/endpoint.h"
#include "rdma_engine/transport/rc/ring_link.h"

namespace jaxina::rc {

// The link is connected. `is_plain`: no switch on the way adds, so the workers do.
std::unique_ptr<Endpoint> make_ring_endpoint(const Membership& member, std::unique_ptr<RingLink> link, bool is_plain);

}  // namespace jaxina::rc
