// Does something in the guest's network namespace "peer", where UDP port 4791 is free: Soft-RoCE holds it in the
// initial one.
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace jaxina::guest {

inline void enter(const char* path) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0 || setns(fd, CLONE_NEWNET) != 0) {
    std::perror(path);
    std::exit(1);
  }
  close(fd);
}

// Sockets belong to the namespace they were made in, and so do threads started meanwhile.
template <typename Make>
auto in_peer(Make make) {
  enter("/run/netns/peer");
  auto made = make();
  enter("/proc/1/ns/net");
  return made;
}

}  // namespace jaxina::guest
