// The width of the words that travel, and how values are rounded to them. 32 bits to nearest is the default; narrow
// words trade precision for bandwidth.
//
// With words of w bits the scale is S = w - 1 - L - m = 125 + w - L - b and Q = floor((2^(w-1) - 1) / n), so that the
// sum of n words still fits a word.
#pragma once

#include <cstddef>
#include <cstdint>

namespace jaxina::numerics {

enum class WireWord : std::uint8_t { kInt32 = 4, kInt16 = 2, kInt8 = 1 };  // its bytes

// To nearest with ties to even; or up or down at random, so that the expectation is the value (block_fixed_point.h says
// how). The same seed gives the same bits; workers and collectives should differ in theirs.
struct Rounding {
  bool stochastic = false;
  std::uint64_t seed = 0;
};

}  // namespace jaxina::numerics
