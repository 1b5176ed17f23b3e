#include "rdma_engine/net/socket_address.h"

#include <arpa/inet.h>
#include <netdb.h>

#include <algorithm>
#include <cstring>
#include <memory>

namespace jaxina::net {

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

Address from_ipv4(const std::string& address, std::uint16_t port) {
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(port);
  if (inet_pton(AF_INET, address.c_str(), &v4.sin_addr) != 1) {
    throw Error(ErrorCode::kInvalidArgument, "\"" + address + "\" is not an IPv4 address in numbers");
  }
  return from_sockaddr(reinterpret_cast<const sockaddr*>(&v4), sizeof(v4));
}

Address from_sockaddr(const sockaddr* address, socklen_t size) {
  Address result;
  result.size = static_cast<std::uint8_t>(std::min<std::size_t>(size, result.bytes.size()));
  std::memcpy(result.bytes.data(), address, result.size);
  return result;
}

bool can_be_answered(const Address& address) {
  if (port_of(address) == 0) return false;
  const auto v4_host = [](const std::uint8_t* ip) {
    std::uint32_t number;
    std::memcpy(&number, ip, sizeof(number));
    number = ntohl(number);
    return number != INADDR_ANY && number != INADDR_BROADCAST && !IN_MULTICAST(number);
  };
  if (family(address) == AF_INET) return v4_host(&address.bytes[offsetof(sockaddr_in, sin_addr)]);
  if (family(address) != AF_INET6) return false;
  in6_addr ip;
  std::memcpy(&ip, &address.bytes[offsetof(sockaddr_in6, sin6_addr)], sizeof(ip));
  if (IN6_IS_ADDR_V4MAPPED(&ip)) return v4_host(&ip.s6_addr[12]);
  return !IN6_IS_ADDR_UNSPECIFIED(&ip) && !IN6_IS_ADDR_MULTICAST(&ip);
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

Address host_of(const Address& address) {
  static_assert(offsetof(sockaddr_in, sin_port) == offsetof(sockaddr_in6, sin6_port));
  Address host = address;
  host.bytes[offsetof(sockaddr_in, sin_port)] = host.bytes[offsetof(sockaddr_in, sin_port) + 1] = 0;
  host.local = {};
  return host;
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

}  // namespace jaxina::net
