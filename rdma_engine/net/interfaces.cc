#include "rdma_engine/net/interfaces.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <memory>

#include "rdma_engine/errors.h"

namespace jaxina::net {
namespace {

unsigned prefix_length(const sockaddr* mask) {
  if (mask == nullptr) return 0;
  unsigned bits = 0;
  const auto count = [&](const void* bytes, std::size_t size) {
    const auto* byte = static_cast<const unsigned char*>(bytes);
    for (std::size_t i = 0; i < size; ++i) bits += static_cast<unsigned>(std::popcount(byte[i]));
  };
  if (mask->sa_family == AF_INET) {
    count(&reinterpret_cast<const sockaddr_in*>(mask)->sin_addr, sizeof(in_addr));
  } else {
    count(&reinterpret_cast<const sockaddr_in6*>(mask)->sin6_addr, sizeof(in6_addr));
  }
  return bits;
}

std::size_t mtu_of(const char* interface) {
  const int any = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (any < 0) return 0;
  ifreq request{};
  std::strncpy(request.ifr_name, interface, sizeof(request.ifr_name) - 1);
  const bool told = ioctl(any, SIOCGIFMTU, &request) == 0;
  close(any);
  return told ? static_cast<std::size_t>(request.ifr_mtu) : 0;
}

}  // namespace

std::vector<InterfaceAddress> interface_addresses() {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) {
    throw Error(ErrorCode::kSystem, std::string("cannot list this host's network interfaces: ") + std::strerror(errno));
  }
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(all, freeifaddrs);
  std::vector<InterfaceAddress> result;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    const int family = one->ifa_addr == nullptr ? AF_UNSPEC : one->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const bool v6 = family == AF_INET6;
    if (v6 && IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(one->ifa_addr)->sin6_addr)) continue;
    char host[NI_MAXHOST];
    const socklen_t size = v6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    if (getnameinfo(one->ifa_addr, size, host, sizeof(host), nullptr, 0, NI_NUMERICHOST) != 0) continue;
    const unsigned running = IFF_UP | IFF_RUNNING;
    result.push_back({.interface = one->ifa_name,
                      .address = host,
                      .prefix_length = prefix_length(one->ifa_netmask),
                      .mtu = mtu_of(one->ifa_name),
                      .up = (one->ifa_flags & running) == running,
                      .loopback = (one->ifa_flags & IFF_LOOPBACK) != 0});
  }
  return result;
}

std::string interface_of(const std::string& address) {
  const std::vector<InterfaceAddress> all = interface_addresses();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const InterfaceAddress& one) { return one.address == address; });
  return found == all.end() ? address : found->interface + " (" + address + ")";
}

}  // namespace jaxina::net
