// The specification of the codec, written once more: one element at a time, with double arithmetic and library
// functions.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "rdma_engine/numerics/codec.h"

namespace jaxina::numerics::testing {

inline constexpr float kInf = std::numeric_limits<float>::infinity();

inline int reference_log2_workers(std::uint32_t n) {
  return static_cast<int>(std::ceil(std::log2(static_cast<double>(n))));
}

inline int reference_exponent(const float* x, std::size_t count, bool finite_only) {
  double largest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (std::isfinite(x[i])) {
      largest = std::max(largest, std::fabs(static_cast<double>(x[i])));
    } else if (!finite_only) {
      return 255;
    }
  }
  if (largest == 0) return 0;
  int m = 0;
  std::frexp(largest, &m);
  return std::clamp(m + 126, 0, 254);
}

inline std::uint32_t reference_quantize(float x, int exponent, std::uint32_t n) {
  if (!std::isfinite(x)) return 0;
  const int m = exponent - 126;
  const double scaled = std::ldexp(static_cast<double>(x), 31 - reference_log2_workers(n) - m);
  const double limit = std::floor(2147483647.0 / n);
  return static_cast<std::uint32_t>(static_cast<std::int32_t>(std::clamp(std::nearbyint(scaled), -limit, limit)));
}

inline float reference_dequantize(std::uint32_t word, int exponent, std::uint32_t n) {
  const int m = exponent - 126;
  const float rounded = static_cast<float>(static_cast<std::int32_t>(word));
  return static_cast<float>(std::ldexp(static_cast<double>(rounded), -(31 - reference_log2_workers(n) - m)));
}

inline std::uint32_t reference_flags(float x) {
  if (std::isnan(x)) return 0x00010001;
  if (x == kInf) return 0x00000001;
  if (x == -kInf) return 0x00010000;
  return 0;
}

inline std::uint32_t reversed_bytes(std::uint32_t word) {
  std::uint32_t result = 0;
  for (int byte = 0; byte < 4; ++byte) result |= (word >> (8 * byte) & 0xff) << (8 * (3 - byte));
  return result;
}

// Converts a word of this host to network order.
inline std::uint32_t big_endian(std::uint32_t word) {
  return std::endian::native == std::endian::little ? reversed_bytes(word) : word;
}

inline std::uint32_t reference_stored(std::uint32_t old, std::uint32_t word, Store store) {
  switch (store) {
    case Store::kWrite: return word;
    case Store::kAdd: return old + word;
    case Store::kBigEndian: return big_endian(word);
  }
  return 0;
}

}  // namespace jaxina::numerics::testing
