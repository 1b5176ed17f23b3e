// The network interfaces of this host.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace jaxina::net {

// One address of an interface.
struct InterfaceAddress {
  std::string interface;
  std::string address;     // numeric
  unsigned prefix_length;  // of the subnet
  std::size_t mtu;         // bytes
  bool up;                 // and has a link
  bool loopback;
};

// All IPv4 and IPv6 addresses of this host, without IPv6's link-local ones. Throws Error(kSystem).
std::vector<InterfaceAddress> interface_addresses();

// "eth1 (10.0.0.1)" for an address of this host; the address itself if no interface has it.
std::string interface_of(const std::string& address);

}  // namespace jaxina::net
