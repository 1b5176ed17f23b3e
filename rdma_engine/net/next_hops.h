// NextHops: tells whether packets to a destination can leave at once. The kernel holds packets whose next hop's link
// address it does not know yet, for seconds if no host has that address. Meanwhile they take room in the socket's send
// buffer that other destinations need.
#pragma once

#include "rdma_engine/base/address.h"
#include "rdma_engine/net/udp_socket.h"

namespace jaxina::net {

class NextHops {
 public:
  // Asks about this thread's network namespace.
  NextHops();

  // Whether the kernel knows the link address of the next hop to `to`. Asks the kernel, which takes some microseconds.
  // Also true if the kernel cannot say, or if the link has no addresses.
  bool resolved(const Address& to) const;

 private:
  FileDescriptor netlink_;  // -1: not available
};

}  // namespace jaxina::net
