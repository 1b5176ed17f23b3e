// Telling whether another process on this host still runs.
#pragma once

#include <cstdint>

namespace jaxina::embedded {

// The start time tells a process from a later one with the same number; the namespace tells whether the number means
// anything here.
struct ProcessIdentity {
  std::int32_t pid;
  std::uint64_t start_time;     // clock ticks since boot
  std::uint64_t pid_namespace;  // inode
};

ProcessIdentity this_process();

// False only if the process has certainly ended (also if it is a zombie).
bool is_alive(const ProcessIdentity& process);

}  // namespace jaxina::embedded
