// Conversions between float32 and float16 or bfloat16, with integer arithmetic, so every processor gives the same bits.
// They round to nearest, ties to even. A NaN stays NaN, becomes quiet, and keeps the part of its payload that fits, as
// with the processors' own instructions. Internal linkage and compiler built-ins only, for the reason that kernels.h
// gives.
#pragma once

#include <cstdint>

#include "rdma_engine/numerics/block_fixed_point.h"

namespace jaxina::numerics {

struct Float16 {
  std::uint16_t bits;
};
struct Bfloat16 {
  std::uint16_t bits;
};

namespace {

JAXINA_HOST_DEVICE inline float widen(Bfloat16 x) { return __builtin_bit_cast(float, std::uint32_t{x.bits} << 16); }

JAXINA_HOST_DEVICE inline float widen(Float16 x) {
  const std::uint32_t sign = std::uint32_t{x.bits & 0x8000u} << 16;
  const std::uint32_t magnitude = x.bits & 0x7fffu;
  if (magnitude >= 0x7c00u) return __builtin_bit_cast(float, sign | 0x7f800000u | (magnitude << 13 & 0x7fffffu));
  // With the magnitude shifted into place, the exponent is too small by 112. The multiplication corrects this and also
  // normalizes subnormals.
  const float value = __builtin_bit_cast(float, magnitude << 13) * 0x1p112f;
  return __builtin_bit_cast(float, sign | __builtin_bit_cast(std::uint32_t, value));
}

JAXINA_HOST_DEVICE inline void narrow(float x, Bfloat16& y) {
  const auto bits = __builtin_bit_cast(std::uint32_t, x);
  const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  const std::uint32_t rounded = bits + 0x7fffu + (bits >> 16 & 1);
  y.bits = static_cast<std::uint16_t>((is_nan ? bits | 0x400000u : rounded) >> 16);
}

JAXINA_HOST_DEVICE inline void narrow(float x, Float16& y) {
  const auto bits = __builtin_bit_cast(std::uint32_t, x);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  std::uint32_t result;
  if (magnitude > 0x7f800000u) {
    result = 0x7e00u | (magnitude >> 13 & 0x3ffu);
  } else if (magnitude >= 0x47800000u) {  // 65536 and above, and Inf
    result = 0x7c00u;
  } else if (magnitude >= 0x38800000u) {  // normal in float16. Rounding may carry into Inf, as it should
    const std::uint32_t rebiased = magnitude - (112u << 23);
    result = (rebiased + 0xfffu + (rebiased >> 13 & 1)) >> 13;
  } else {
    // Subnormal in float16. Adding 0.5 makes float32's addition round to a multiple of 2^-24, which is left in the low
    // bits.
    const float sum = __builtin_bit_cast(float, magnitude) + 0.5f;
    result = __builtin_bit_cast(std::uint32_t, sum) - 0x3f000000u;
  }
  y.bits = static_cast<std::uint16_t>(sign | result);
}

}  // namespace
}  // namespace jaxina::numerics
