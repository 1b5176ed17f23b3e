// Whether packets to a destination can leave at once. The kernel keeps those whose next hop's link address it does not
// know yet, seconds long if nobody has that address, and they take the sending socket's buffer from all other
// destinations.
#pragma once

#include "rdma_engine/base/address.h"
#include "rdma_engine/net/udp_socket.h"

namespace jaxina::net {

class NextHops {
 public:
  // Of this thread's network namespace.
  NextHops();

  // Asks the kernel, some microseconds. True also where it cannot say, or where there are no link addresses.
  bool resolved(const Address& to) const;

 private:
  FileDescriptor netlink_;  // -1: not to be had
};

}  // namespace jaxina::net
