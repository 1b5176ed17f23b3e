// Stochastic rounding: rounds up or down at random, so that the expected word is the scaled value. |x 2^S| is cut to an
// integer, and 1 is added if a random 32-bit number is below the fraction times 2^32. Then the sign is applied. (So
// fractions below 2^-32 never round up.) The random number depends only on the seed and the element's index in its
// tensor. So the CPU, every GPU and the NumPy reference draw the same numbers.
#pragma once

#include <cstdint>

#include "rdma_engine/numerics/split_mix.h"
#include "rdma_engine/numerics/vector_arithmetic.h"

namespace jaxina::numerics {
namespace {

// sum / 2^shift, rounded with this random number.
JAXINA_HOST_DEVICE constexpr std::uint32_t shifted_at_random(std::uint32_t sum, std::uint32_t shift,
                                                             std::uint32_t random) {
  const std::uint32_t offset = shift == 0 ? 0 : random >> (32 - shift);
  return static_cast<std::uint32_t>(static_cast<std::int32_t>(sum + offset) >> shift);
}

// Like quantized(), but rounded with these random numbers.
template <class V>
JAXINA_HOST_DEVICE inline typename V::Words quantized_at_random(typename V::Words bits, Factors factors,
                                                                std::int32_t limit, typename V::Words random) {
  const auto highest = V::fill(static_cast<std::uint32_t>(limit)), half = V::fill(0x80000000u);
  const auto scaled = times<V>(V::as_floats(finite_magnitude<V>(bits)), factors);
  const auto whole = V::truncated(scaled);
  const auto fraction = V::subtract_floats(scaled, V::to_floats(whole));
  const auto threshold = V::truncated(V::multiply(fraction, V::fill_float(0x1p32f)));
  // Both sides minus 2^31, since words are compared as signed ones.
  const auto up = V::greater_signed(V::subtract(threshold, half), V::subtract(random, half));
  const auto rounded = V::min_signed(V::count(whole, up), highest);
  // Values that do not fit 32 bits are clamped, too.
  const auto word = V::select(V::at_least(scaled, V::fill_float(0x1p31f)), highest, rounded);
  // The sign, without a branch.
  return V::subtract(word, V::bit_and(V::add(word, word), V::shift_right_signed(bits, 31)));
}

}  // namespace
}  // namespace jaxina::numerics
