// The address of a peer: a socket address in a switch, a number in the simulator. The protocol code only stores and
// compares it.
#pragma once

#include <array>
#include <cstdint>

namespace jaxina {

struct Address {
  std::array<std::uint8_t, 28> bytes{};  // holds a sockaddr_in6
  std::uint8_t size = 0;
  // The IP address of this host that the datagram was sent to, as in a sockaddr; all zeros if not known. == compares it
  // too, because the answer must come from that address: one peer that asks at two of our addresses gets two answers.
  std::array<std::uint8_t, 16> local{};
  bool operator==(const Address&) const = default;
};

// Whether they are one peer, at whichever of our addresses it asks.
inline bool same_peer(const Address& a, const Address& b) { return a.size == b.size && a.bytes == b.bytes; }

}  // namespace jaxina
