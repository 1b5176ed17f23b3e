// Where a packet came from: a socket address for a switch, a number for the simulator. Who speaks for an aggregator
// only stores and compares it.
#pragma once

#include <array>
#include <cstdint>

namespace jaxina {

struct Address {
  std::array<std::uint8_t, 28> bytes{};  // holds a sockaddr_in6
  std::uint8_t size = 0;
  // This host's own IP address that the datagram was sent to, as it lies in a sockaddr; zeros: not known. It takes part
  // in
  // == because an answer must come from it: the same peer asking at two addresses is answered two ways.
  std::array<std::uint8_t, 16> local{};
  bool operator==(const Address&) const = default;
};

}  // namespace jaxina
