// Hints about the memory that results are written to. Usually it is new, and the kernel still has to clear it.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

namespace jaxina {

// Asks the kernel to use huge pages inside [memory, memory + bytes). With pages of 4 KiB, a new result of 100 MB costs
// 25,000 page faults, which take longer than summing it. This is only advice, so errors are ignored.
inline void advise_huge_pages(void* memory, std::size_t bytes) {
  constexpr std::uintptr_t kHugePage = 2 << 20;
  const auto begin = (reinterpret_cast<std::uintptr_t>(memory) + kHugePage - 1) / kHugePage * kHugePage;
  const auto end = (reinterpret_cast<std::uintptr_t>(memory) + bytes) / kHugePage * kHugePage;
  if (end > begin) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
}

// From this size on, in bytes over all tensors, results are better written past the caches: otherwise the processor
// reads each line from memory before it writes it.
inline constexpr std::size_t kStreamedBytes = 1 << 20;

// Whether the kernel has already given this memory its pages, judged by the page in the middle. The kernel clears new
// pages in the caches, so writing them there is cheap.
inline bool is_resident(const void* memory, std::size_t bytes) {
  constexpr std::uintptr_t kPage = 4096;
  unsigned char resident = 0;
  const std::uintptr_t middle = (reinterpret_cast<std::uintptr_t>(memory) + bytes / 2) / kPage * kPage;
  return mincore(reinterpret_cast<void*>(middle), 1, &resident) == 0 && (resident & 1) != 0;
}

}  // namespace jaxina
