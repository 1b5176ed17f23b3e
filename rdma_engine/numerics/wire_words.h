// The width of the words on the wire, and how values are rounded to them. The default is 32 bits, rounded to nearest.
// Narrow words of w = 8 or 16 bits give up precision to save bandwidth.
//
// A narrow word has no head-room for the sum: S = w - 1 - m = 125 + w - b and Q = 2^(w-1) - 1, whatever n is. Sums are
// 32 bits wide. A sum of at most 2^L words is divided by 2^L and rounded, so that it fits a word again. That is done
// twice: a process of D devices divides by 2^ceil(log2 D), an aggregator of P processes by 2^ceil(log2 P).
#pragma once

#include <cstddef>
#include <cstdint>

namespace jaxina::numerics {

enum class WireWord : std::uint8_t { kInt32 = 4, kInt16 = 2, kInt8 = 1 };  // the value is the number of bytes

constexpr std::int32_t bits_of(WireWord word) { return 8 * static_cast<std::int32_t>(word); }

// The number of 32-bit words that hold `count` words.
constexpr std::size_t packed_size(std::size_t count, WireWord word) {
  return (count * static_cast<std::size_t>(word) + 3) / 4;
}

// Blocks with narrow words have a multiple of so many elements, so that they fill whole 32-bit words.
inline constexpr std::uint32_t kNarrowBlockStep = 4;

// Flags of NaN and Inf that share a 32-bit word, beside narrow words (wire::Format::kFlags).
inline constexpr std::uint32_t kFlagsPerWord = 16;
constexpr std::size_t packed_flags_size(std::size_t count) { return (count + kFlagsPerWord - 1) / kFlagsPerWord; }

// ceil(log2 count)
constexpr std::int32_t log2_of(std::uint32_t count) {
  std::int32_t log2 = 0;
  while ((1u << log2) < count) ++log2;
  return log2;
}

// Rounds to nearest with ties to even, or stochastically: up or down at random, so that the expectation is the value
// (stochastic_rounding.h). The same seed gives the same bits, so different workers and collectives should use different
// seeds.
struct Rounding {
  bool stochastic = false;
  std::uint64_t seed = 0;
};

}  // namespace jaxina::numerics
