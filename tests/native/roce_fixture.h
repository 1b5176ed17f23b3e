// Workers over RoCE against a software switch of this process.
#pragma once

#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "rdma_engine/switch/roce_switch.h"
#include "rdma_engine/transport/roce/rdma_endpoint.h"
#include "rdma_engine/transport/roce/socket_queue_pairs.h"
#include "tests/native/udp_fixture.h"

namespace jaxina::testing {

// Connects through the switch's own method, as the control service does.
inline std::unique_ptr<Endpoint> roce_endpoint(RoceSwitch& roce_switch, const EndpointConfig& config,
                                               roce::SocketOptions options = {}) {
  if (options.host.empty()) options.host = "127.0.0.1";
  options.loss = config.loss;
  options.loss_seed = config.loss_seed;
  return roce::make_rdma_endpoint(
      config,
      [&](std::size_t queues, std::size_t send_bytes, std::size_t receive_bytes) {
        return std::make_unique<roce::SocketQueuePairs>(options, queues, send_bytes, receive_bytes);
      },
      [&](const roce::ConnectionEnd& local) {
        return roce_switch.connect(config.job, static_cast<std::uint16_t>(config.worker), local);
      });
}

template <typename Body>
void with_roce_workers(RoceSwitch& roce_switch, const std::vector<EndpointConfig>& configs,
                       const roce::SocketOptions& options, Body body) {
  std::vector<std::thread> threads;
  for (std::uint32_t w = 0; w < configs.size(); ++w) {
    threads.emplace_back([&, w] {
      const std::unique_ptr<Endpoint> endpoint = roce_endpoint(roce_switch, configs[w], options);
      body(w, *endpoint);
    });
  }
  for (std::thread& t : threads) t.join();
}

}  // namespace jaxina::testing
