// Assertions that stay on in release builds. For what only a bug can break: it is better to stop than to go on to a
// wrong sum. What a user, a peer or a network can cause is an error instead (rdma_engine/errors.h).
#pragma once

#include <cstdio>
#include <cstdlib>

namespace jaxina {

// Out of line, so that a check costs its caller a comparison and nothing more.
[[noreturn, gnu::cold, gnu::noinline]] inline void assertion_failed(const char* condition, const char* file,
                                                                    unsigned line) {
  std::fprintf(stderr, "%s:%u: jaxina: assertion failed: %s\n", file, line, condition);
  std::abort();
}

}  // namespace jaxina

#define JAXINA_ASSERT(condition) \
  (static_cast<bool>(condition) ? static_cast<void>(0) : ::jaxina::assertion_failed(#condition, __FILE__, __LINE__))
