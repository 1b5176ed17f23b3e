// What Net and CollNet have in common: the device, which host memory it reaches, and the counters.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "abi.h"

namespace collnet {

// Counters lie in a file that is mapped, so spike.py can read them even if it had to kill this process.
struct Counters {
  std::atomic<uint64_t> net_inits, collnet_inits, groups, all_reduces, all_reduce_bytes, sends, send_bytes;
};

inline Counters* counters() {
  static Counters* const instance = [] {
    static Counters without_file;
    const char* path = getenv("JAXINA_COLLNET_COUNTERS");
    const int fd = path != nullptr ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (fd < 0) return &without_file;
    void* memory = MAP_FAILED;
    if (ftruncate(fd, sizeof(Counters)) == 0)
      memory = mmap(nullptr, sizeof(Counters), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return memory == MAP_FAILED ? &without_file : static_cast<Counters*>(memory);
  }();
  return instance;
}

inline Logger g_log = nullptr;

inline std::string UniqueName(const char* kind) {
  static std::atomic<int> next{0};
  return "jaxina-" + std::string(kind) + "-" + std::to_string(getpid()) + "-" + std::to_string(next++);
}

// Net and CollNet give their device the same name, so NCCL takes it for one NIC that can sum.
inline Result Devices(int* count) {
  *count = 1;
  return kSuccess;
}

inline Result GetProperties(int, Properties* properties) {
  *properties = {"jaxina0",
                 nullptr,
                 /*guid=*/1,
                 kPointerHost,
                 0,
                 0,
                 /*speed_mbps=*/100'000,
                 1,
                 /*latency=*/0,
                 /*max_comms=*/1 << 16,
                 /*max_receives=*/1,
                 0,
                 0,
                 {1, {0, 0, 0, 0}},
                 size_t{1} << 30,
                 size_t{1} << 30,
                 1};
  return kSuccess;
}

// Only host memory can be reached. Its addresses need no preparation.
inline Result RegisterMemory(void*, void*, size_t, int type, void** memory) {
  *memory = nullptr;
  return type == kPointerHost ? kSuccess : kInternalError;
}

inline Result RegisterDmabuf(void*, void*, size_t, int, uint64_t, int, void**) { return kInternalError; }
inline Result DeregisterMemory(void*, void*) { return kSuccess; }
inline Result Finalize(void*) { return kSuccess; }

}  // namespace collnet
