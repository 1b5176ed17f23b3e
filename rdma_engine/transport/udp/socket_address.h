// Between an Address (opaque bytes to the aggregator) and the operating system's socket addresses.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>

#include "rdma_engine/aggregator/aggregator.h"
#include "rdma_engine/errors.h"

namespace jaxina::udp {

// The first IPv4 or IPv6 address of `host`, a name or a number. Throws Error(on_failure).
Address resolve(const std::string& host, std::uint16_t port, ErrorCode on_failure);

Address from_sockaddr(const sockaddr* address, socklen_t size);
inline const sockaddr* as_sockaddr(const Address& address) {
  return reinterpret_cast<const sockaddr*>(address.bytes.data());
}

// The host's own IPv4 address that packets to and from `address` use, see UdpSocket::any_local(); zero if not known.
in_addr local_side(const Address& address);
void set_local_side(Address& address, in_addr local);

int family(const Address& address);
// Whether two IPv4 addresses are one host's, whatever the ports: a NIC chooses its source ports as it likes.
bool same_host(const Address& a, const Address& b);
std::uint16_t port_of(const Address& address);
// "127.0.0.1:4791", "[::1]:4791"
std::string to_string(const Address& address);

}  // namespace jaxina::udp
