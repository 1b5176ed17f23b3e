// narrow<To>(value): a checked conversion to a smaller integer type. It stops the process where a static_cast would
// silently lose bits.
#pragma once

#include <concepts>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

namespace jaxina {

// Out of line, so that a check costs its caller only a comparison.
template <std::integral From>
[[noreturn, gnu::cold, gnu::noinline]] void narrowing_failed(From value, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: jaxina: %s does not fit the type it is converted to\n", file, line,
               std::to_string(value).c_str());
  std::abort();
}

// Returns the same number as a To. If To cannot hold it, prints the caller's file and line and the value, and aborts.
// (Not std::source_location: Debian 12's clang, which builds the fuzzers, does not have it.)
template <std::integral To, std::integral From>
constexpr To narrow(From value, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  if (!std::in_range<To>(value)) [[unlikely]]
    narrowing_failed(value, file, line);
  return static_cast<To>(value);
}

}  // namespace jaxina
