// A plug-in for NCCL that answers one question: can NCCL hand a program's sums to something else, here to a few lines
// that add in shared memory? spike.py asks. Processes of one host only, and not fast.
//
// This file has the collectives (CollNet). The ranks' data lies side by side in a file in /dev/shm, in pieces, and
// every rank adds all of it.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <string>

#include "common.h"

namespace collnet {
namespace {

constexpr int kMaxRanks = 8, kSlots = 16;
constexpr size_t kPieceBytes = size_t{256} << 10;

struct Lane {  // what one rank wrote into a slot, and that it has read all that is there
  alignas(64) std::atomic<uint64_t> written, read;  // the piece's number + 1
  uint64_t bytes, type;
};

struct Region {
  std::atomic<int> attached;
  Lane lanes[kSlots][kMaxRanks];
  char data[kSlots][kMaxRanks][kPieceBytes];
};

struct Bfloat16 {
  uint16_t bits;

  explicit operator float() const {
    const uint32_t wide = uint32_t{bits} << 16;
    float value;
    memcpy(&value, &wide, sizeof(value));
    return value;
  }

  explicit Bfloat16(float value) {  // to the nearest, of two to the even one
    uint32_t wide;
    memcpy(&wide, &value, sizeof(wide));
    bits = value == value ? (wide + 0x7fff + (wide >> 16 & 1)) >> 16 : 0x7fc0;
  }
};

template <typename T>
void Add(char* sum, const char* lane, size_t bytes) {
  T* to = reinterpret_cast<T*>(sum);
  const T* from = reinterpret_cast<const T*>(lane);
  for (size_t i = 0; i < bytes / sizeof(T); ++i) to[i] = T(static_cast<float>(to[i]) + static_cast<float>(from[i]));
}

struct Reduction {
  struct Group* group;
  const char* send;
  char* receive;
  size_t bytes;
  int type;
  size_t written = 0, summed = 0;
};

struct Group {
  Region* region;
  int ranks, rank;
  uint64_t next_to_write = 0, next_to_sum = 0;  // pieces
  std::deque<Reduction*> queue = {};

  bool All(uint64_t slot, std::atomic<uint64_t> Lane::* what, uint64_t value) const {
    for (int r = 0; r < ranks; ++r) {
      if ((region->lanes[slot][r].*what).load(std::memory_order_acquire) != value) return false;
    }
    return true;
  }

  bool Write(Reduction& reduction) {
    const uint64_t slot = next_to_write % kSlots;
    if (!All(slot, &Lane::read, next_to_write < kSlots ? 0 : next_to_write - kSlots + 1)) return false;
    Lane& lane = region->lanes[slot][rank];
    lane.bytes = std::min(kPieceBytes, reduction.bytes - reduction.written);
    lane.type = reduction.type;
    memcpy(region->data[slot][rank], reduction.send + reduction.written, lane.bytes);
    reduction.written += lane.bytes;
    lane.written.store(++next_to_write, std::memory_order_release);
    return true;
  }

  // The ranks must ask for the same sums in the same order. If they do not, this is where it shows.
  Result Sum(Reduction& reduction, bool* moved) {
    const uint64_t slot = next_to_sum % kSlots;
    *moved = reduction.written > reduction.summed && All(slot, &Lane::written, next_to_sum + 1);
    if (!*moved) return kSuccess;
    Lane* lanes = region->lanes[slot];
    const size_t bytes = lanes[rank].bytes;
    char* sum = reduction.receive + reduction.summed;
    for (int r = 0; r < ranks; ++r) {
      if (lanes[r].bytes != bytes || lanes[r].type != lanes[rank].type) return kInternalError;
      if (r == 0) memcpy(sum, region->data[slot][r], bytes);
      else if (reduction.type == kFloat32) Add<float>(sum, region->data[slot][r], bytes);
      else Add<Bfloat16>(sum, region->data[slot][r], bytes);
    }
    reduction.summed += bytes;
    lanes[rank].read.store(++next_to_sum, std::memory_order_release);
    return kSuccess;
  }

  Result Progress() {
    for (Reduction* reduction : queue) {
      while (reduction->written < reduction->bytes && Write(*reduction)) {
      }
      if (reduction->written < reduction->bytes) break;
    }
    for (; !queue.empty(); queue.pop_front()) {
      Reduction& reduction = *queue.front();
      for (bool moved = true; reduction.summed < reduction.bytes && moved;) {
        if (const Result result = Sum(reduction, &moved); result != kSuccess) return result;
      }
      if (reduction.summed < reduction.bytes) break;
    }
    return kSuccess;
  }
};

struct Listener {
  std::string path;
  bool in_use = false;
};

Result CollNetInit(void** context, uint64_t, Logger) {
  *context = nullptr;
  counters()->collnet_inits++;
  return kSuccess;
}

// Every rank makes a file. The group uses that of rank 0, which the others know from the handles.
Result CollNetListen(void*, int, void* handle, void** listener) {
  const std::string path = "/dev/shm/" + UniqueName("collnet");
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return kSystemError;
  const bool sized = ftruncate(fd, sizeof(Region)) == 0;
  close(fd);
  snprintf(static_cast<char*>(handle), kHandleBytes, "%s", path.c_str());
  *listener = new Listener{path};
  return sized ? kSuccess : kSystemError;
}

Result CollNetConnect(void* handles[], int ranks, int rank, void* listener, void** group) {
  static_cast<Listener*>(listener)->in_use = rank == 0;
  const int fd = ranks <= kMaxRanks ? open(static_cast<const char*>(handles[0]), O_RDWR | O_CLOEXEC) : -1;
  if (fd < 0) return kSystemError;
  void* memory = mmap(nullptr, sizeof(Region), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (memory == MAP_FAILED) return kSystemError;
  auto* region = static_cast<Region*>(memory);
  if (++region->attached == ranks) unlink(static_cast<const char*>(handles[0]));
  *group = new Group{region, ranks, rank};
  counters()->groups++;
  if (g_log != nullptr) g_log(3, 0x10, __FILE__, __LINE__, "jaxina: CollNet group of %d, rank %d", ranks, rank);
  return kSuccess;
}

Result ReduceSupport(int type, int operation, int* supported) {
  *supported = operation == kSum && (type == kFloat32 || type == kBfloat16) ? 1 : 0;
  return kSuccess;
}

Result AllReduce(void* group, void* send, void* receive, size_t count, int type, int, void*, void*, void** request) {
  const size_t bytes = count * (type == kFloat32 ? 4 : 2);
  auto* reduction =
      new Reduction{static_cast<Group*>(group), static_cast<char*>(send), static_cast<char*>(receive), bytes, type};
  reduction->group->queue.push_back(reduction);
  counters()->all_reduces++;
  counters()->all_reduce_bytes += bytes;
  *request = reduction;
  return reduction->group->Progress();
}

Result CollNetFlush(void*, void*, int, void*, void** request) {
  *request = nullptr;
  return kSuccess;
}

Result CollNetTest(void* request, int* done, int* size) {
  auto* reduction = static_cast<Reduction*>(request);
  const Result result = reduction->group->Progress();
  *done = reduction->summed == reduction->bytes ? 1 : 0;
  if (*done == 0) return result;
  if (size != nullptr) *size = static_cast<int>(reduction->bytes);
  delete reduction;
  return kSuccess;
}

Result CollNetClose(void* group) {
  munmap(static_cast<Group*>(group)->region, sizeof(Region));
  delete static_cast<Group*>(group);
  return kSuccess;
}

Result CollNetCloseListen(void* listener) {
  auto* own = static_cast<Listener*>(listener);
  if (!own->in_use) unlink(own->path.c_str());
  delete own;
  return kSuccess;
}

}  // namespace
}  // namespace collnet

extern "C" __attribute__((visibility("default"))) const collnet::CollNet ncclCollNetPlugin_v11;

const collnet::CollNet ncclCollNetPlugin_v11 = {"jaxina",
                                                collnet::CollNetInit,
                                                collnet::Devices,
                                                collnet::GetProperties,
                                                collnet::CollNetListen,
                                                collnet::CollNetConnect,
                                                collnet::ReduceSupport,
                                                collnet::RegisterMemory,
                                                collnet::RegisterDmabuf,
                                                collnet::DeregisterMemory,
                                                collnet::AllReduce,
                                                nullptr,
                                                nullptr,
                                                collnet::CollNetFlush,
                                                collnet::CollNetTest,
                                                collnet::CollNetClose,
                                                collnet::CollNetCloseListen,
                                                nullptr,
                                                collnet::Finalize};
