// Counts the calls of operator new in a program. Only one file of the program may include this.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace jaxina::testing {

inline std::atomic<std::uint64_t> allocation_count = 0;
inline std::uint64_t allocations() { return allocation_count; }

}  // namespace jaxina::testing

#if defined(__GNUC__) && !defined(__clang__)
// After inlining, GCC sees malloc() and operator delete, or operator new and free(), and takes them for a mismatch.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
#endif

void* operator new(std::size_t size) {
  ++jaxina::testing::allocation_count;
  if (void* memory = std::malloc(size > 0 ? size : 1)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
