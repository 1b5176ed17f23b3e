// Block fixed point for float64, 80 bits wide, so that the block's largest element keeps more than float64's 53 bits
// for every number of workers.
//
//   exponent byte  b = E / 9 (rounded down), E the block's largest biased exponent (0..2046); 255 if any value is NaN
//                  or Inf. One byte must do, so the exponent is known to a multiple of 9: max|x| < 2^m, m = 9 b + 8 - 1022.
//   scale          S = 79 - L - m
//   quantize       q = rint(x * 2^S), |q| < 2^(79 - L), as five 16-bit limbs of its two's complement
//   dequantize     y = float64(sum q) * 2^-S
// Sums of limbs stay below n * 2^16 <= 2^26.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

#include "rdma_engine/numerics/block_fixed_point.h"

namespace jaxina::numerics {

inline constexpr std::size_t kFloat64Limbs = 5;
inline constexpr int kFloat64ExponentStep = 9;

constexpr std::uint32_t biased_exponent(double x) {
  return static_cast<std::uint32_t>(std::bit_cast<std::uint64_t>(x) >> 52 & 0x7ff);
}

constexpr int float64_scale_exponent(std::uint8_t exponent, Scale scale) {
  const int m = kFloat64ExponentStep * exponent + kFloat64ExponentStep - 1 - 1022;
  return 79 - scale.log2_workers - m;
}

// rint(x * 2^power) for a finite x with |x * 2^power| < 2^79.
inline __int128 scaled_integer(double x, int power) {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const std::uint32_t biased = biased_exponent(x);
  const std::uint64_t fraction = bits & ((std::uint64_t{1} << 52) - 1);
  const std::uint64_t mantissa = biased == 0 ? fraction : fraction | std::uint64_t{1} << 52;
  const int shift = static_cast<int>(biased == 0 ? 1 : biased) - 1075 + power;  // x * 2^power = mantissa * 2^shift
  __int128 magnitude = 0;
  if (shift >= 0) {
    magnitude = static_cast<__int128>(mantissa) << shift;
  } else if (shift > -64) {
    const int down = -shift;
    const std::uint64_t whole = mantissa >> down;
    const std::uint64_t rest = mantissa & ((std::uint64_t{1} << down) - 1);
    const std::uint64_t half = std::uint64_t{1} << (down - 1);
    magnitude = whole + (rest > half || (rest == half && (whole & 1) != 0));
  }
  return bits >> 63 ? -magnitude : magnitude;
}

inline std::array<std::uint32_t, kFloat64Limbs> to_limbs(__int128 value) {
  std::array<std::uint32_t, kFloat64Limbs> limbs;
  for (std::size_t i = 0; i < kFloat64Limbs; ++i) limbs[i] = static_cast<std::uint16_t>(value >> (16 * i));
  return limbs;
}

// The 80-bit two's complement number that sums of limbs stand for.
inline __int128 from_limbs(const std::array<std::uint32_t, kFloat64Limbs>& sums) {
  unsigned __int128 total = 0;
  for (std::size_t i = 0; i < kFloat64Limbs; ++i) total += static_cast<unsigned __int128>(sums[i]) << (16 * i);
  return static_cast<__int128>(total << 48) >> 48;
}

inline double scaled_double(__int128 value, int power) { return std::ldexp(static_cast<double>(value), power); }

}  // namespace jaxina::numerics
