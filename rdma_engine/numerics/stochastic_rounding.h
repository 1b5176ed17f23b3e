// Stochastic rounding: rounds up or down at random, so that the expected word is the scaled value. |x 2^S| is cut to an
// integer, and 1 is added if a random 32-bit number is below the fraction times 2^32. Then the sign is applied. (So
// fractions below 2^-32 never round up.) The random number depends only on the seed and the element's index in its
// tensor. So the CPU, every GPU and the NumPy reference draw the same numbers.
#pragma once

#include <bit>
#include <cstdint>

#include "rdma_engine/numerics/vector_arithmetic.h"

namespace jaxina::numerics {
namespace {

constexpr std::uint64_t kSplitMixStep = 0x9e3779b97f4a7c15u;

// The (index + 1)-th number of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA
// 2014), started at `seed`.
JAXINA_HOST_DEVICE constexpr std::uint64_t random64(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t z = seed + (index + 1) * kSplitMixStep;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// Its upper half.
JAXINA_HOST_DEVICE constexpr std::uint32_t random_word(std::uint64_t seed, std::uint64_t index) {
  return static_cast<std::uint32_t>(random64(seed, index) >> 32);
}

// The seed with which index 0 draws what `seed` draws at index `first`.
JAXINA_HOST_DEVICE constexpr std::uint64_t seed_from(std::uint64_t seed, std::uint64_t first) {
  return seed + first * kSplitMixStep;
}

// sum / 2^shift, rounded with this random number.
JAXINA_HOST_DEVICE constexpr std::uint32_t shifted_at_random(std::uint32_t sum, std::uint32_t shift,
                                                             std::uint32_t random) {
  const std::uint32_t offset = shift == 0 ? 0 : random >> (32 - shift);
  return static_cast<std::uint32_t>(static_cast<std::int32_t>(sum + offset) >> shift);
}

// Like quantized(), for the bits of one float32, but rounded with this random number.
JAXINA_HOST_DEVICE inline std::uint32_t quantized_at_random(std::uint32_t bits, Factors factors, std::int32_t limit,
                                                            std::uint32_t random) {
  const auto highest = static_cast<std::uint32_t>(limit);
  const float scaled = times<ScalarVector>(ScalarVector::as_floats(finite_magnitude<ScalarVector>(bits)), factors);
  std::uint32_t word = highest;
  if (scaled < 0x1p31f) {
    const auto whole = static_cast<std::uint32_t>(scaled);
    const auto threshold = static_cast<std::uint32_t>((scaled - static_cast<float>(whole)) * 0x1p32f);
    const std::uint32_t rounded = whole + (random < threshold ? 1 : 0);
    word = rounded < highest ? rounded : highest;
  }
  return bits >> 31 ? 0u - word : word;
}

}  // namespace
}  // namespace jaxina::numerics
