// JAXINA_ASSERT: an assertion that stays on in release builds. Use it for conditions that only a bug can break:
// stopping is better than a wrong sum. For anything a user, a peer or the network can cause, return an error instead
// (rdma_engine/errors.h).
#pragma once

#include <cstdio>
#include <cstdlib>

namespace jaxina {

// Out of line, so that a check costs its caller only a comparison.
[[noreturn, gnu::cold, gnu::noinline]] inline void assertion_failed(const char* condition, const char* file,
                                                                    unsigned line) {
  std::fprintf(stderr, "%s:%u: jaxina: assertion failed: %s\n", file, line, condition);
  std::abort();
}

}  // namespace jaxina

#define JAXINA_ASSERT(condition) \
  (static_cast<bool>(condition) ? static_cast<void>(0) : ::jaxina::assertion_failed(#condition, __FILE__, __LINE__))
