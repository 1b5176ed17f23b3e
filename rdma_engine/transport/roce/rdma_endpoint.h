// make_rdma_endpoint: the endpoint of the RDMA transports. It drives a message session with real time over a set of
// queue pairs.
#pragma once

#include <functional>
#include <memory>

#include "rdma_engine/messages/queue_pairs.h"
#include "rdma_engine/transport/endpoint.h"

namespace jaxina::roce {

// Creates `queues` queue pairs with memory of the given sizes.
using MakeQueuePairs =
    std::function<std::unique_ptr<QueuePairs>(std::size_t queues, std::size_t send_bytes, std::size_t receive_bytes)>;

std::unique_ptr<Endpoint> make_rdma_endpoint(const Membership& member, const MakeQueuePairs& make,
                                             const Exchange& exchange);

}  // namespace jaxina::roce
