// ScalarVector: the operations that the kernels use, for a vector of one element. codec_avx2.cc and codec_avx512.cc
// have the same operations for wide vectors. Every variant also uses ScalarVector for the last elements of an array,
// and the CUDA kernels compute with it on a GPU. Internal linkage and compiler built-ins only, for the reason that
// kernels.h gives.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rdma_engine/numerics/block_fixed_point.h"
#include "rdma_engine/numerics/narrow_float.h"
#include "rdma_engine/numerics/split_mix.h"

namespace jaxina::numerics {
namespace {

struct ScalarVector {
  static constexpr std::size_t kWidth = 1;
  using Words = std::uint32_t;
  using Floats = float;
  using Mask = bool;

  JAXINA_HOST_DEVICE static Words load(const void* from) {
    Words words;
    __builtin_memcpy(&words, from, sizeof(words));
    return words;
  }
  JAXINA_HOST_DEVICE static void store(void* to, Words words) { __builtin_memcpy(to, &words, sizeof(words)); }

  // Load and store elements as the bits of a float32. Narrow types are widened and rounded.
  static Words load_float(const float* from) { return load(from); }
  template <class Narrow>
  static Words load_float(const Narrow* from) {
    Narrow x;
    __builtin_memcpy(&x, from, sizeof(x));
    return as_words(widen(x));
  }
  static void store_float(float* to, Words words) { store(to, words); }
  template <class Narrow>
  static void store_float(Narrow* to, Words words) {
    Narrow x;
    narrow(as_floats(words), x);
    __builtin_memcpy(to, &x, sizeof(x));
  }
  // Writes past the caches where the processor can. `to` must be aligned to a whole vector of elements.
  template <class Element>
  static void stream_float(Element* to, Words words) {
    store_float(to, words);
  }
  static void end_streaming() {}

  JAXINA_HOST_DEVICE static Words fill(std::uint32_t value) { return value; }
  JAXINA_HOST_DEVICE static Floats fill_float(float value) { return value; }
  JAXINA_HOST_DEVICE static Floats as_floats(Words a) { return __builtin_bit_cast(float, a); }
  JAXINA_HOST_DEVICE static Words as_words(Floats a) { return __builtin_bit_cast(std::uint32_t, a); }

  JAXINA_HOST_DEVICE static Words bit_and(Words a, Words b) { return a & b; }
  JAXINA_HOST_DEVICE static Words add(Words a, Words b) { return a + b; }
  JAXINA_HOST_DEVICE static Words subtract(Words a, Words b) { return a - b; }
  JAXINA_HOST_DEVICE static Words shift_right_signed(Words a, std::uint32_t bits) {
    return static_cast<Words>(static_cast<std::int32_t>(a) >> bits);
  }
  JAXINA_HOST_DEVICE static Words swap_bytes(Words a) {
#if defined(__CUDA_ARCH__)
    return __byte_perm(a, 0, 0x0123);
#else
    return __builtin_bswap32(a);
#endif
  }
  JAXINA_HOST_DEVICE static Words max_signed(Words a, Words b) { return greater_signed(a, b) ? a : b; }
  // The maximum and the sum over a's lanes.
  static std::uint32_t largest_signed(Words a) { return a; }
  static std::uint32_t sum(Words a) { return a; }
  JAXINA_HOST_DEVICE static Words min_signed(Words a, Words b) { return greater_signed(a, b) ? b : a; }
  JAXINA_HOST_DEVICE static Mask equal(Words a, Words b) { return a == b; }
  // True where a is 0 but b, a float32, is neither +0 nor -0.
  static Mask zero_where_nonzero(Words a, Words b) { return a == 0 && b << 1 != 0; }
  // Adds 1 where the mask is true.
  JAXINA_HOST_DEVICE static Words count(Words total, Mask mask) { return total + (mask ? 1 : 0); }
  JAXINA_HOST_DEVICE static Mask greater_signed(Words a, Words b) {
    return static_cast<std::int32_t>(a) > static_cast<std::int32_t>(b);
  }
  JAXINA_HOST_DEVICE static Words select(Mask mask, Words a, Words b) { return mask ? a : b; }

  JAXINA_HOST_DEVICE static Floats multiply(Floats a, Floats b) { return a * b; }
  JAXINA_HOST_DEVICE static Floats subtract_floats(Floats a, Floats b) { return a - b; }
  JAXINA_HOST_DEVICE static Mask at_least(Floats a, Floats b) { return a >= b; }
  JAXINA_HOST_DEVICE static Floats to_floats(Words a) { return static_cast<float>(static_cast<std::int32_t>(a)); }

  // The nearest integer, ties to even. Gives -2^31 for smaller values, and an unspecified word for 2^31 and above.
  JAXINA_HOST_DEVICE static Words to_integers(Floats a) {
#if defined(__CUDA_ARCH__)
    return static_cast<Words>(__float2int_rn(a));  // saturates
#else
    constexpr float kLowest = -0x1p31f;
    constexpr float kHighest = 0x1.fffffep30f;
    const float above = a > kLowest ? a : kLowest;
    return static_cast<std::uint32_t>(__builtin_lrintf(above < kHighest ? above : kHighest));
#endif
  }
  // The integer towards zero, unsigned, of 0 and above. Gives an unspecified word for 2^32 and above.
  JAXINA_HOST_DEVICE static Words truncated(Floats a) { return static_cast<Words>(a < 0x1p32f ? a : 0.0f); }

  // random_word() of this index and the following ones, one in each lane.
  JAXINA_HOST_DEVICE static Words random_words(std::uint64_t seed, std::uint64_t index) {
    return random_word(seed, index);
  }
};

}  // namespace
}  // namespace jaxina::numerics
