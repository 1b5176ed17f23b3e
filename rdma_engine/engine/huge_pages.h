// Fresh memory is cheaper to touch in huge pages.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

namespace jaxina {

// Asks the kernel for huge pages for the whole ones within [memory, memory + bytes). A result buffer is new in every call:
// in pages of 4 KiB a 100 MB one costs 25,000 page faults, as much time as summing it. Only advice, so failure means
// nothing.
inline void advise_huge_pages(void* memory, std::size_t bytes) {
  constexpr std::uintptr_t kHugePage = 2 << 20;
  const auto begin = (reinterpret_cast<std::uintptr_t>(memory) + kHugePage - 1) / kHugePage * kHugePage;
  const auto end = (reinterpret_cast<std::uintptr_t>(memory) + bytes) / kHugePage * kHugePage;
  if (end > begin) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
}

}  // namespace jaxina
