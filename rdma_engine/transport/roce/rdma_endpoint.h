// A worker's end of the RDMA transports: drives the worker state machine with real time over a set of queue pairs.
#pragma once

#include <functional>
#include <memory>

#include "rdma_engine/transport/endpoint.h"
#include "rdma_engine/transport/roce/queue_pairs.h"

namespace jaxina::roce {

// Makes queue pairs of the number and with the memory that a job needs.
using MakeQueuePairs = std::function<std::unique_ptr<QueuePairs>(std::size_t queues, std::size_t send_bytes,
                                                                  std::size_t receive_bytes)>;

std::unique_ptr<Endpoint> make_rdma_endpoint(const EndpointConfig& config, const MakeQueuePairs& make,
                                             const Exchange& exchange);

}  // namespace jaxina::roce
