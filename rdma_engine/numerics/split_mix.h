// SplitMix64: random numbers that depend on a seed and an index only. Internal linkage, for the reason that kernels.h
// gives.
#pragma once

#include <cstdint>

#include "rdma_engine/numerics/block_fixed_point.h"

namespace jaxina::numerics {
namespace {

constexpr std::uint64_t kSplitMixStep = 0x9e3779b97f4a7c15u;
constexpr std::uint64_t kSplitMixFirst = 0xbf58476d1ce4e5b9u;
constexpr std::uint64_t kSplitMixSecond = 0x94d049bb133111ebu;

// The (index + 1)-th number of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA
// 2014), started at `seed`.
JAXINA_HOST_DEVICE constexpr std::uint64_t random64(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t z = seed + (index + 1) * kSplitMixStep;
  z = (z ^ (z >> 30)) * kSplitMixFirst;
  z = (z ^ (z >> 27)) * kSplitMixSecond;
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

}  // namespace
}  // namespace jaxina::numerics
