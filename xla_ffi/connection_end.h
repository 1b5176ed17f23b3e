// Converts RDMA connection ends to and from Python, where they are tuples with the fields of
// jaxina.control.data_plane.QueuePairs in the same order.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "rdma_engine/messages/connection_end.h"

namespace jaxina {

using ConnectionFields = std::tuple<std::string, std::uint16_t, std::uint32_t, std::vector<std::uint32_t>,
                                    std::uint32_t, std::uint32_t, std::uint64_t>;

inline ConnectionFields fields_of(const roce::ConnectionEnd& end) {
  return {end.address, end.udp_port, end.mtu, end.qpns, end.psn, end.rkey, end.memory};
}

inline roce::ConnectionEnd connection_of(const ConnectionFields& fields) {
  const auto& [address, udp_port, mtu, qpns, psn, rkey, memory] = fields;
  return {address, udp_port, mtu, qpns, psn, rkey, memory};
}

}  // namespace jaxina
