// ConnectionEnd: what one side of an RDMA connection tells the other.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "rdma_engine/wire/roce.h"

namespace jaxina::roce {

// One side of a set of queue pairs, as the other side needs to know it.
struct ConnectionEnd {
  std::string address;                // a numeric IPv4 address
  std::uint16_t udp_port = kUdpPort;  // NICs always use this port
  std::uint32_t mtu = 0;              // the most payload bytes per packet it accepts: 256, 512, 1024, 2048 or 4096
  std::vector<std::uint32_t> qpns;
  std::uint32_t psn = 0;     // the first packet sequence number that it sends, on every queue pair
  std::uint32_t rkey = 0;    // the key of the memory that the other side may write
  std::uint64_t memory = 0;  // the address of that memory
};

// Sends the switch this end of the connection, and returns the switch's end. Throws Error.
using Exchange = std::function<ConnectionEnd(const ConnectionEnd& local)>;

// The ends of a worker's neighbours in a ring. Each worker's qpns are the one that sends and the one that receives.
struct RingNeighbours {
  ConnectionEnd next, previous;
};

// Tells the other workers this one's end, and returns its neighbours' when all workers have told. Throws Error.
using RingExchange = std::function<RingNeighbours(const ConnectionEnd& local)>;

}  // namespace jaxina::roce
