// The error message for workers that sum different things.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "rdma_engine/errors.h"

namespace jaxina {

// The end of every message about workers, devices or processes that sum different things.
inline constexpr std::string_view kRunTheSame =
    ": check that all run the same programs in the same order, with equal shapes and dtypes "
    "(threads that run programs at the same time have no common order)";

// All workers of the job get this error.
inline Status mismatch_between(std::uint32_t worker, std::uint32_t other) {
  return {ErrorCode::kMismatch, "workers " + std::to_string(worker) + " and " + std::to_string(other) +
                                    " sum different things in the same call" + std::string(kRunTheSame)};
}

}  // namespace jaxina
