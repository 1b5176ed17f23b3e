// Conversions to a smaller integer type that stop the process where a static_cast would lose bits without a word.
#pragma once

#include <concepts>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

namespace jaxina {

// Out of line, so that a check costs its caller a comparison and nothing more.
template <std::integral From>
[[noreturn, gnu::cold, gnu::noinline]] void narrowing_failed(From value, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: jaxina: %s does not fit the type it is converted to\n", file, line,
               std::to_string(value).c_str());
  std::abort();
}

// The same number as a To. Prints the caller's file and line and the value, and aborts, if there is no such number.
// (Debian 12's clang, which the fuzzers are built with, has no std::source_location.)
template <std::integral To, std::integral From>
constexpr To narrow(From value, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  if (!std::in_range<To>(value)) [[unlikely]]
    narrowing_failed(value, file, line);
  return static_cast<To>(value);
}

}  // namespace jaxina
