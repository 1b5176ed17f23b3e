// Selects the values of largest magnitude, which the Top-k compressors send.
#pragma once

#include <cstdint>
#include <span>

namespace jaxina::numerics {

// Writes the indices of the `chosen.size()` values of largest magnitude: the largest first, and of equal ones those
// with lower indices first. NaN counts as larger than infinity. The time it takes is proportional to the number of
// values.
//
// Throws Error(kInvalidArgument) if there are fewer values than are to be chosen, or more than an index can tell.
void top_k(std::span<const float> values, std::span<std::int32_t> chosen);

}  // namespace jaxina::numerics
