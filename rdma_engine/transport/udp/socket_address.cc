#include "rdma_engine/transport/udp/socket_address.h"

#include <netdb.h>

#include <algorithm>
#include <cstring>
#include <memory>

namespace jaxina::udp {

Address resolve(const std::string& host, std::uint16_t port, ErrorCode on_failure) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) {
    throw Error(on_failure, "cannot resolve the host \"" + host + "\": " + gai_strerror(error) +
                                "; check the address of the switch");
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  return from_sockaddr(found->ai_addr, found->ai_addrlen);
}

Address from_sockaddr(const sockaddr* address, socklen_t size) {
  Address result;
  result.size = static_cast<std::uint8_t>(std::min<std::size_t>(size, result.bytes.size()));
  std::memcpy(result.bytes.data(), address, result.size);
  return result;
}

in_addr local_side(const Address& address) {
  static_assert(sizeof(sockaddr_in::sin_zero) >= sizeof(in_addr));
  in_addr local;
  std::memcpy(&local, &address.bytes[offsetof(sockaddr_in, sin_zero)], sizeof(local));
  return local;
}

void set_local_side(Address& address, in_addr local) {
  std::memcpy(&address.bytes[offsetof(sockaddr_in, sin_zero)], &local, sizeof(local));
}

int family(const Address& address) {
  sa_family_t family = AF_UNSPEC;
  if (address.size >= sizeof(family)) std::memcpy(&family, address.bytes.data(), sizeof(family));
  return family;
}

bool same_host(const Address& a, const Address& b) {
  constexpr std::size_t kOffset = offsetof(sockaddr_in, sin_addr);
  return family(a) == AF_INET && family(b) == AF_INET &&
         std::equal(&a.bytes[kOffset], &a.bytes[kOffset + sizeof(in_addr)], &b.bytes[kOffset]);
}

std::uint16_t port_of(const Address& address) {
  // IPv4 and IPv6 addresses keep the port in the same place.
  static_assert(offsetof(sockaddr_in, sin_port) == offsetof(sockaddr_in6, sin6_port));
  in_port_t port = 0;
  if (address.size >= sizeof(sockaddr_in)) {
    std::memcpy(&port, address.bytes.data() + offsetof(sockaddr_in, sin_port), sizeof(port));
  }
  return ntohs(port);
}

std::string to_string(const Address& address) {
  char host[NI_MAXHOST];
  if (getnameinfo(as_sockaddr(address), address.size, host, sizeof(host), nullptr, 0, NI_NUMERICHOST) != 0) {
    return "an unknown address";
  }
  const std::string port = std::to_string(port_of(address));
  return family(address) == AF_INET6 ? "[" + std::string(host) + "]:" + port : std::string(host) + ":" + port;
}

}  // namespace jaxina::udp
