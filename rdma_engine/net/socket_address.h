// Conversions between an Address (opaque bytes to the aggregator) and the operating system's socket addresses.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "rdma_engine/base/address.h"
#include "rdma_engine/errors.h"

namespace jaxina::net {

// The first IPv4 or IPv6 address of `host`, a name or a numeric address. Throws Error(on_failure).
Address resolve(const std::string& host, std::uint16_t port, ErrorCode on_failure);

// Parses a numeric IPv4 address. It takes no names, so it never waits for a name service. Throws
// Error(kInvalidArgument).
Address from_ipv4(const std::string& address, std::uint16_t port);

Address from_sockaddr(const sockaddr* address, socklen_t size);
inline const sockaddr* as_sockaddr(const Address& address) {
  return reinterpret_cast<const sockaddr*>(address.bytes.data());
}

// Whether a datagram can be sent to the address at all. False for port 0, the unspecified address, multicast and the
// IPv4 broadcast address. Only a forger uses these as a source.
bool can_be_answered(const Address& address);

int family(const Address& address);
// Whether two IPv4 addresses are the same host's, whatever the ports. (A NIC chooses its source ports freely.)
bool same_host(const Address& a, const Address& b);
// The address with port 0, the same for all processes of a host.
Address host_of(const Address& address);
std::uint16_t port_of(const Address& address);
// "127.0.0.1:4791", "[::1]:4791"
std::string to_string(const Address& address);

// Hashes everything that == compares.
struct HashAddress {
  std::size_t operator()(const Address& address) const {
    const auto hash = [](const std::uint8_t* bytes, std::size_t size) {
      return std::hash<std::string_view>{}({reinterpret_cast<const char*>(bytes), size});
    };
    return hash(address.bytes.data(), address.bytes.size()) * 31 + hash(address.local.data(), address.local.size());
  }
};

}  // namespace jaxina::net
