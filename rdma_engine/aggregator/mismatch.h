// The error message for workers that sum different things.
#pragma once

#include <cstdint>
#include <string>

#include "rdma_engine/errors.h"

namespace jaxina {

// All workers of the job get this error.
inline Status mismatch_between(std::uint32_t worker, std::uint32_t other) {
  return {ErrorCode::kMismatch, "workers " + std::to_string(worker) + " and " + std::to_string(other) +
                                    " sum different things in the same call: check that every process runs the same "
                                    "program with equal shapes and dtypes"};
}

}  // namespace jaxina
