// The width of the words on the wire, and how values are rounded to them. The default is 32 bits, rounded to nearest.
// Narrower words give up precision to save bandwidth.
//
// With words of w bits the scale is S = w - 1 - L - m = 125 + w - L - b and Q = floor((2^(w-1) - 1) / n), so that the
// sum of n words still fits a word.
#pragma once

#include <cstddef>
#include <cstdint>

namespace jaxina::numerics {

enum class WireWord : std::uint8_t { kInt32 = 4, kInt16 = 2, kInt8 = 1 };  // the value is the number of bytes

// Rounds to nearest with ties to even, or stochastically: up or down at random, so that the expectation is the value
// (stochastic_rounding.h). The same seed gives the same bits, so different workers and collectives should use different
// seeds.
struct Rounding {
  bool stochastic = false;
  std::uint64_t seed = 0;
};

}  // namespace jaxina::numerics
