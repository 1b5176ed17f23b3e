// The memory that results are written to. In most calls it is new, and the kernel still has to clear it.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

namespace jaxina {

// Asks the kernel for huge pages for the whole ones within [memory, memory + bytes): in pages of 4 KiB a new 100 MB
// costs 25,000 page faults, more time than summing it. Only advice, so failure means nothing.
inline void advise_huge_pages(void* memory, std::size_t bytes) {
  constexpr std::uintptr_t kHugePage = 2 << 20;
  const auto begin = (reinterpret_cast<std::uintptr_t>(memory) + kHugePage - 1) / kHugePage * kHugePage;
  const auto end = (reinterpret_cast<std::uintptr_t>(memory) + bytes) / kHugePage * kHugePage;
  if (end > begin) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
}

// Results of this size, all together, are better written past the caches: to write a line that is not there the
// processor would first read it from memory.
inline constexpr std::size_t kStreamedBytes = 1 << 20;

// Whether the kernel has given the memory its pages already, told by the one in the middle. It clears new ones in the
// caches, where writing them is cheap.
inline bool is_resident(const void* memory, std::size_t bytes) {
  constexpr std::uintptr_t kPage = 4096;
  unsigned char resident = 0;
  const std::uintptr_t middle = (reinterpret_cast<std::uintptr_t>(memory) + bytes / 2) / kPage * kPage;
  return mincore(reinterpret_cast<void*>(middle), 1, &resident) == 0 && (resident & 1) != 0;
}

}  // namespace jaxina
