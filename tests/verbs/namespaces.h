// Runs code in a network namespace of the guest, such as "peer". There UDP port 4791 is free, while Soft-RoCE holds it
// in the initial namespace.
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace jaxina::guest {

inline void enter(const char* path) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0 || setns(fd, CLONE_NEWNET) != 0) {
    std::perror(path);
    std::exit(1);
  }
  close(fd);
}

// Calls make() in a namespace. Sockets that it makes, and threads that it starts, stay in that namespace.
template <typename Make>
auto in_namespace(const std::string& name, Make make) {
  enter(("/run/netns/" + name).c_str());
  auto made = make();
  enter("/proc/1/ns/net");
  return made;
}
template <typename Make>
auto in_peer(Make make) {
  return in_namespace("peer", make);
}

}  // namespace jaxina::guest
