// Counts calls of operator new in the program that includes this, once.
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
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"  // inlined, malloc and free meet without these around them
#endif

void* operator new(std::size_t size) {
  ++jaxina::testing::allocation_count;
  if (void* memory = std::malloc(size > 0 ? size : 1)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
