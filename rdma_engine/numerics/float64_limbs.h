// Block fixed point for float64, 80 bits wide. So the block's largest element keeps more than float64's 53 bits, for
// every number of workers.
//
//   exponent byte  b = floor(E / 9), E the block's largest biased exponent (0..2046); 255 if any value is NaN or Inf.
//                  The exponent must fit one byte, so it is known only to a multiple of 9:
//                  max|x| < 2^m with m = 9 b + 8 - 1022.
//   scale          S = 79 - L - m
//   quantize       q = rint(x * 2^S), |q| < 2^(79 - L), as five 16-bit limbs of its two's complement
//   dequantize     y = float64(sum q) * 2^-S
// Sums of limbs stay below n * 2^16 <= 2^26, so they fit a 32-bit word.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "rdma_engine/numerics/block_fixed_point.h"

namespace jaxina::numerics {

inline constexpr std::size_t kFloat64Limbs = 5;
inline constexpr int kFloat64ExponentStep = 9;

JAXINA_HOST_DEVICE constexpr std::uint32_t biased_exponent(double x) {
  return static_cast<std::uint32_t>(std::bit_cast<std::uint64_t>(x) >> 52 & 0x7ff);
}

JAXINA_HOST_DEVICE constexpr int float64_scale_exponent(std::uint8_t exponent, Scale scale) {
  const int m = kFloat64ExponentStep * exponent + kFloat64ExponentStep - 1 - 1022;
  return 79 - scale.log2_workers - m;
}

// rint(x * 2^power) for a finite x with |x * 2^power| < 2^79.
JAXINA_HOST_DEVICE inline __int128 scaled_integer(double x, int power) {
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

JAXINA_HOST_DEVICE inline std::uint32_t limb(__int128 value, std::size_t index) {
  return static_cast<std::uint16_t>(value >> (16 * index));
}

// The 80-bit two's complement number that sums of limbs represent.
JAXINA_HOST_DEVICE inline __int128 from_limbs(const std::uint32_t* sums) {
  unsigned __int128 total = 0;
  for (std::size_t i = 0; i < kFloat64Limbs; ++i) total += static_cast<unsigned __int128>(sums[i]) << (16 * i);
  return static_cast<__int128>(total << 48) >> 48;
}

// float64(value), rounded once, for |value| < 2^80. Both parts are exact, so only their sum rounds.
JAXINA_HOST_DEVICE inline double to_double(__int128 value) {
  const auto magnitude = static_cast<unsigned __int128>(value < 0 ? -value : value);
  const auto high = static_cast<double>(static_cast<std::uint64_t>(magnitude >> 32));
  const auto low = static_cast<double>(static_cast<std::uint32_t>(magnitude));
  const double sum = high * 0x1p32 + low;
  return value < 0 ? -sum : sum;
}

// 2^(power) as float64, for a power in [-1022, 1023].
JAXINA_HOST_DEVICE constexpr double float64_power_of_two(int power) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(power + 1023) << 52);
}

// float64(value) * 2^power, for a power in [-2044, 2046]. Only the second product can round: the first one, an integer
// times 2^(power / 2), is a normal number.
JAXINA_HOST_DEVICE inline double scaled_double(__int128 value, int power) {
  const int half = power / 2;
  return to_double(value) * float64_power_of_two(half) * float64_power_of_two(power - half);
}

}  // namespace jaxina::numerics
