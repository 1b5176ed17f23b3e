// The operations the kernels are written in, for a vector of one element. codec_avx2.cc and codec_avx512.cc give the
// same operations for wide vectors; every file also uses this one for what is left over at the end of an array.
// Internal linkage and compiler built-ins only: see kernels.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace jaxina::numerics {
namespace {

struct ScalarVector {
  static constexpr std::size_t kWidth = 1;
  using Words = std::uint32_t;
  using Floats = float;
  using Mask = bool;

  static Words load(const void* from) {
    Words words;
    __builtin_memcpy(&words, from, sizeof(words));
    return words;
  }
  static void store(void* to, Words words) { __builtin_memcpy(to, &words, sizeof(words)); }

  static Words fill(std::uint32_t value) { return value; }
  static Floats fill_float(float value) { return value; }
  static Floats as_floats(Words a) { return __builtin_bit_cast(float, a); }
  static Words as_words(Floats a) { return __builtin_bit_cast(std::uint32_t, a); }

  static Words bit_and(Words a, Words b) { return a & b; }
  static Words add(Words a, Words b) { return a + b; }
  static Words swap_bytes(Words a) { return __builtin_bswap32(a); }
  static Words max_signed(Words a, Words b) { return greater_signed(a, b) ? a : b; }
  static Words min_signed(Words a, Words b) { return greater_signed(a, b) ? b : a; }
  static Mask equal(Words a, Words b) { return a == b; }
  static Mask greater_signed(Words a, Words b) {
    return static_cast<std::int32_t>(a) > static_cast<std::int32_t>(b);
  }
  static Words select(Mask mask, Words a, Words b) { return mask ? a : b; }

  static Floats multiply(Floats a, Floats b) { return a * b; }
  static Mask at_least(Floats a, Floats b) { return a >= b; }
  static Floats to_floats(Words a) { return static_cast<float>(static_cast<std::int32_t>(a)); }

  // The nearest integer, ties to even; -2^31 for anything below; any word for 2^31 and above.
  static Words to_integers(Floats a) {
    constexpr float kLowest = -0x1p31f;
    constexpr float kHighest = 0x1.fffffep30f;
    const float above = a > kLowest ? a : kLowest;
    return static_cast<std::uint32_t>(__builtin_lrintf(above < kHighest ? above : kHighest));
  }
};

}  // namespace
}  // namespace jaxina::numerics
