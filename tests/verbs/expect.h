// What a case says if something does not hold. The program's exit status depends on it.
#pragma once

#include <cstdio>

namespace jaxina::guest {

inline int failures = 0;

inline void expect(bool holds, const char* what) {
  if (holds) return;
  std::printf("  FAILED: %s\n", what);
  ++failures;
}

}  // namespace jaxina::guest
