// The arithmetic of one vector of words or floats, written once for any vector type V (scalar_vector.h lists its
// operations). The SIMD codec uses it with wide vectors, the CUDA kernels use it with ScalarVector. Internal linkage,
// for the reason that kernels.h gives.
#pragma once

#include <cstdint>

#include "rdma_engine/numerics/block_fixed_point.h"
#include "rdma_engine/numerics/scalar_vector.h"

namespace jaxina::numerics {
namespace {

constexpr std::uint32_t kMagnitudeMask = 0x7fffffff;
constexpr std::uint32_t kPlusInfinity = 0x7f800000;
constexpr std::uint32_t kMinusInfinity = 0xff800000;
constexpr std::uint32_t kQuietNan = 0x7fc00000;
constexpr std::uint32_t kPlusInfinityFlag = 0x00000001;
constexpr std::uint32_t kMinusInfinityFlag = 0x00010000;

template <class V>
JAXINA_HOST_DEVICE inline typename V::Words magnitude(typename V::Words bits) {
  return V::bit_and(bits, V::fill(kMagnitudeMask));
}

template <class V>
JAXINA_HOST_DEVICE inline typename V::Mask finite(typename V::Words bits) {
#if defined(__CUDA_ARCH__)
  return fabsf(V::as_floats(bits)) < V::as_floats(kPlusInfinity);  // one instruction; false for NaN
#else
  return V::greater_signed(V::fill(kPlusInfinity), magnitude<V>(bits));
#endif
}

template <class V>
JAXINA_HOST_DEVICE inline typename V::Words finite_magnitude(typename V::Words bits) {
  return V::select(finite<V>(bits), magnitude<V>(bits), V::fill(0));
}

template <class V>
JAXINA_HOST_DEVICE inline typename V::Floats times(typename V::Floats value, Factors factors) {
  return V::multiply(V::multiply(value, V::fill_float(factors.first)), V::fill_float(factors.second));
}

// float32 bits -> word, rounded to nearest.
template <class V>
JAXINA_HOST_DEVICE inline typename V::Words quantized(typename V::Words bits, Factors factors, std::int32_t limit) {
  const auto scaled = times<V>(V::as_floats(V::select(finite<V>(bits), bits, V::fill(0))), factors);
  const auto highest = V::fill(static_cast<std::uint32_t>(limit));
  const auto lowest = V::fill(0u - static_cast<std::uint32_t>(limit));
  // Values that do not fit 32 bits occur only if `exponent` is not the block's own. They are clamped too.
#if defined(__CUDA_ARCH__)
  const auto word = V::to_integers(scaled);  // saturates
#else
  const auto word = V::select(V::at_least(scaled, V::fill_float(0x1p31f)), highest, V::to_integers(scaled));
#endif
  return V::max_signed(V::min_signed(word, highest), lowest);
}

// Adds 1 in each lane whose float32 is finite and nonzero but has become the word 0.
template <class V>
inline typename V::Words count_rounded_to_zero(typename V::Words count, typename V::Words bits,
                                               typename V::Words word) {
  return V::count(count, V::zero_where_nonzero(word, V::select(finite<V>(bits), bits, V::fill(0))));
}

// sum / 2^shift, rounded to nearest with ties to even. `shift` is at least 1.
template <class V>
JAXINA_HOST_DEVICE inline typename V::Words shifted(typename V::Words sum, std::uint32_t shift) {
  const auto odd = V::bit_and(V::shift_right_signed(sum, shift), V::fill(1));
  const auto below_half = V::fill((1u << (shift - 1)) - 1);
  return V::shift_right_signed(V::add(V::add(sum, below_half), odd), shift);
}

// word -> float32 bits.
template <class V>
JAXINA_HOST_DEVICE inline typename V::Words dequantized(typename V::Words word, Factors factors) {
  return V::as_words(times<V>(V::to_floats(word), factors));
}

// float32 bits -> the word that says whether it is NaN or an infinity (codec.h).
template <class V>
JAXINA_HOST_DEVICE inline typename V::Words non_finite_flag(typename V::Words bits) {
  auto flag = V::select(finite<V>(bits), V::fill(0), V::fill(kPlusInfinityFlag | kMinusInfinityFlag));
  flag = V::select(V::equal(bits, V::fill(kPlusInfinity)), V::fill(kPlusInfinityFlag), flag);
  return V::select(V::equal(bits, V::fill(kMinusInfinity)), V::fill(kMinusInfinityFlag), flag);
}

// The float32 bits that a sum of such flags represents, or `otherwise` where all elements were finite.
template <class V>
JAXINA_HOST_DEVICE inline typename V::Words flagged(typename V::Words flags, typename V::Words otherwise) {
  const auto zero = V::fill(0);
  const auto no_plus = V::equal(V::bit_and(flags, V::fill(kMinusInfinityFlag - 1)), zero);
  const auto no_minus = V::equal(V::bit_and(flags, V::fill(0u - kMinusInfinityFlag)), zero);
  auto bits = V::select(no_minus, V::fill(kPlusInfinity), V::fill(kQuietNan));
  bits = V::select(no_plus, V::fill(kMinusInfinity), bits);
  return V::select(V::equal(flags, zero), otherwise, bits);
}

// A flag in the 2 bits of wire::Format::kFlags, and back.
JAXINA_HOST_DEVICE constexpr std::uint32_t packed_flag(std::uint32_t flag) {
  const std::uint32_t plus = (flag & (kMinusInfinityFlag - 1)) != 0 ? 1 : 0;
  const std::uint32_t minus = flag >= kMinusInfinityFlag ? 2 : 0;
  return plus | minus;
}

JAXINA_HOST_DEVICE constexpr std::uint32_t unpacked_flag(std::uint32_t bits) {
  return ((bits & 1) != 0 ? kPlusInfinityFlag : 0) | ((bits & 2) != 0 ? kMinusInfinityFlag : 0);
}

}  // namespace
}  // namespace jaxina::numerics
