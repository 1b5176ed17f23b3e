// Conversions to a smaller integer type that stop the process where a static_cast would lose bits without a word.
#pragma once

#include <concepts>
#include <cstdio>
#include <cstdlib>
#include <source_location>
#include <string>
#include <utility>

namespace jaxina {

// Out of line, so that a check costs its caller a comparison and nothing more.
template <std::integral From>
[[noreturn, gnu::cold, gnu::noinline]] void narrowing_failed(From value, std::source_location where) {
  std::fprintf(stderr, "%s:%u: jaxina: %s does not fit the type it is converted to\n", where.file_name(),
               static_cast<unsigned>(where.line()), std::to_string(value).c_str());
  std::abort();
}

// The same number as a To. Prints the caller's file and line and the value, and aborts, if there is no such number.
template <std::integral To, std::integral From>
constexpr To narrow(From value, std::source_location where = std::source_location::current()) {
  if (!std::in_range<To>(value)) [[unlikely]] narrowing_failed(value, where);
  return static_cast<To>(value);
}

}  // namespace jaxina
