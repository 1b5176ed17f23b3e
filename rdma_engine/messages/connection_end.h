// What one side of an RDMA connection tells the other.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "rdma_engine/wire/roce.h"

namespace jaxina::roce {

// One side of a set of queue pairs, as the other side must know it.
struct ConnectionEnd {
  std::string address;                // IPv4, in numbers
  std::uint16_t udp_port = kUdpPort;  // a NIC has no other
  std::uint32_t mtu = 0;              // payload bytes per packet that it can take: 256, 512, 1024, 2048 or 4096
  std::vector<std::uint32_t> qpns;
  std::uint32_t psn = 0;     // the first it sends, on every queue pair
  std::uint32_t rkey = 0;    // of what the other side may write
  std::uint64_t memory = 0;  // its address
};

// Tells the switch this end of the connection, and returns the switch's. Throws Error.
using Exchange = std::function<ConnectionEnd(const ConnectionEnd& local)>;

}  // namespace jaxina::roce
