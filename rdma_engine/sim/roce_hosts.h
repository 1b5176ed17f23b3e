// What the simulator's protocols over RoCE share: the hosts' addresses, and first sequence numbers.
#pragma once

#include <array>
#include <cstdint>

#include "rdma_engine/sim/random.h"
#include "rdma_engine/wire/roce_icrc.h"

namespace jaxina::sim {

// The flow between two hosts. The ports do not matter.
inline roce::Flow flow_between(std::uint16_t from, std::uint16_t to) {
  const auto ip = [](std::uint16_t host) {
    return std::array<std::uint8_t, 4>{10, 0, static_cast<std::uint8_t>(host >> 8), static_cast<std::uint8_t>(host)};
  };
  return {.source = ip(from), .destination = ip(to), .source_port = roce::kUdpPort, .destination_port = roce::kUdpPort};
}

// Draws a queue pair's first packet sequence number. Half of them are just below the wrap-around.
inline std::uint32_t draw_psn(Random& random) {
  const std::uint64_t psn = random.one_in(2) ? roce::kMask24 - random.below(100) : random.next();
  return static_cast<std::uint32_t>(psn) & roce::kMask24;
}

}  // namespace jaxina::sim
