// Block fixed point: the formulas for one value. They define the result; the SIMD codec, the CUDA kernels and the NumPy
// reference (jaxina/numerics) reproduce it bit for bit.
//
// n workers each hold a block of at most k float32 values; L = ceil(log2 n); words have w bits, usually 32. The
// formulas are those of 32 bits. Narrow words have no head-room for the sum, so their S and Q do not depend on n
// (wire_words.h).
//   exponent byte  b = the largest IEEE-754 biased exponent field in the block, 255 if any value is NaN or Inf.
//                  With m the smallest integer such that max|x| < 2^m this is clamp(m + 126, 0, 254), so m = b - 126.
//   scale          S = 31 - L - m = 157 - L - b, with the largest b of all workers
//   quantize       q = clamp(rint(x * 2^S), -Q, Q), Q = floor((2^31 - 1) / n), ties to even; NaN and Inf give 0
//   dequantize     y = float32(sum q) * 2^-S
// A sum of n values within [-Q, Q] cannot overflow a word.
#pragma once

#include <bit>
#include <cstdint>

#include "rdma_engine/numerics/wire_words.h"

#if defined(__CUDACC__)
#define JAXINA_HOST_DEVICE __host__ __device__
#else
#define JAXINA_HOST_DEVICE
#endif

namespace jaxina::numerics {

inline constexpr int kMaxWorkers = 1024;
inline constexpr int kDefaultBlockSize = 256;  // k: SwitchML's fastest configuration has packets of 256 elements
inline constexpr std::uint8_t kNonFiniteExponent = 255;

// The part of the scale that all workers of a job share. It does not depend on the block.
struct Scale {
  std::int32_t log2_workers;    // L; of narrow words: by how many bits they have been divided
  std::int32_t limit;           // Q
  std::int32_t word_bits = 32;  // w
};

// The scale of words of 32 bits.
constexpr Scale scale_for(std::uint32_t workers) {
  return {log2_of(workers), static_cast<std::int32_t>(0x7fffffffu / workers)};
}

// The scale of narrow words, which have no head-room (wire_words.h). `shift`: by how many bits the words have been
// divided since they were quantized.
constexpr Scale narrow_scale(WireWord word, std::int32_t shift) {
  const std::int32_t bits = bits_of(word);
  return {shift, static_cast<std::int32_t>(0x7fffffffu >> (32 - bits)), bits};
}

// The largest shift of narrow_scale(): a process of devices divides once, the aggregator a second time.
inline constexpr std::int32_t kMaxNarrowShift = 2 * log2_of(kMaxWorkers);

// 2^(power) as float32, for a power in [-126, 127].
JAXINA_HOST_DEVICE constexpr float power_of_two(int power) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(power + 127) << 23);
}

// 2^S as two exact factors, because it can leave float32's range (S is in [-131, 157]).
struct Factors {
  float first, second;
};

JAXINA_HOST_DEVICE constexpr Factors split_power(int power) {
  const int half = power / 2;
  return {power_of_two(half), power_of_two(power - half)};
}

JAXINA_HOST_DEVICE constexpr int scale_exponent(std::uint8_t exponent, Scale scale) {
  return 125 + scale.word_bits - scale.log2_workers - exponent;
}

}  // namespace jaxina::numerics
