// The form of each element type: how one element becomes words and back, on CPU and GPU. An element is given as its
// bits in memory. A form has:
//
//   kWords, kIsFloat             as in ElementCodec
//   magnitude(x)                 a number whose maximum over a block gives the block's exponent() (floats only)
//   finite_magnitude(x)          the same, but 0 for NaN and Inf
//   EncodeScale, DecodeScale     the values that all elements of a block share
//   encode(x, scale, words)      the element as kWords words: fixed point, or the integer itself
//   encode_at_random(...)        the same, rounded stochastically (one-word floats only)
//   decode(words, scale, keep, old)  the value of summed words; returns `old` if `keep` is set and old is NaN or Inf
//   flag(x)                      the word that says whether x is NaN or an infinity (codec.h); further words are 0
//   flagged(flag, clear, old)    the value that summed flags stand for; if all were finite: 0 if `clear`, else `old`
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "rdma_engine/numerics/float64_limbs.h"
#include "rdma_engine/numerics/narrow_float.h"
#include "rdma_engine/numerics/stochastic_rounding.h"
#include "rdma_engine/numerics/vector_arithmetic.h"

namespace jaxina::numerics {
namespace {

struct WordScale {
  Factors factors;
  std::int32_t limit;
};

// ---- float32, and the types that are widened to it

struct Float32 {
  std::uint32_t bits;
};

JAXINA_HOST_DEVICE inline std::uint32_t widened_bits(Float32 x) { return x.bits; }
template <class Narrow>
JAXINA_HOST_DEVICE inline std::uint32_t widened_bits(Narrow x) {
  return std::bit_cast<std::uint32_t>(widen(x));
}
JAXINA_HOST_DEVICE inline void narrow_bits(std::uint32_t bits, Float32& y) { y.bits = bits; }
template <class Narrow>
JAXINA_HOST_DEVICE inline void narrow_bits(std::uint32_t bits, Narrow& y) {
  narrow(std::bit_cast<float>(bits), y);
}

template <class Stored>
struct FloatForm {
  using Element = Stored;
  using EncodeScale = WordScale;
  using DecodeScale = Factors;
  static constexpr std::uint32_t kWords = 1;
  static constexpr bool kIsFloat = true;

  JAXINA_HOST_DEVICE static std::uint32_t magnitude(Element x) {
    return numerics::magnitude<ScalarVector>(widened_bits(x));
  }
  JAXINA_HOST_DEVICE static std::uint32_t finite_magnitude(Element x) {
    return numerics::finite_magnitude<ScalarVector>(widened_bits(x));
  }
  JAXINA_HOST_DEVICE static std::uint8_t exponent(std::uint32_t largest) {
    return static_cast<std::uint8_t>(largest >> 23);
  }

  JAXINA_HOST_DEVICE static EncodeScale encode_scale(std::uint8_t exponent, Scale scale) {
    return {split_power(scale_exponent(exponent, scale)), scale.limit};
  }
  JAXINA_HOST_DEVICE static DecodeScale decode_scale(std::uint8_t exponent, Scale scale) {
    return split_power(-scale_exponent(exponent, scale));
  }
  JAXINA_HOST_DEVICE static void encode(Element x, EncodeScale scale, std::uint32_t* words) {
    words[0] = quantized<ScalarVector>(widened_bits(x), scale.factors, scale.limit);
  }
  JAXINA_HOST_DEVICE static void encode_at_random(Element x, EncodeScale scale, std::uint32_t random,
                                                  std::uint32_t* words) {
    words[0] = quantized_at_random<ScalarVector>(widened_bits(x), scale.factors, scale.limit, random);
  }
  JAXINA_HOST_DEVICE static Element decode(const std::uint32_t* words, DecodeScale scale, bool keep, Element old) {
    const std::uint32_t value = dequantized<ScalarVector>(words[0], scale);
    return narrowed(keep && !finite<ScalarVector>(widened_bits(old)) ? widened_bits(old) : value);
  }
  JAXINA_HOST_DEVICE static std::uint32_t flag(Element x) { return non_finite_flag<ScalarVector>(widened_bits(x)); }
  JAXINA_HOST_DEVICE static Element flagged(std::uint32_t flag, bool clear, Element old) {
    return narrowed(numerics::flagged<ScalarVector>(flag, clear ? 0 : widened_bits(old)));
  }

 protected:
  JAXINA_HOST_DEVICE static Element narrowed(std::uint32_t bits) {
    Element y;
    narrow_bits(bits, y);
    return y;
  }
};

// ---- the same in two words: the second word holds the remainder of the first, times 2^(31 - L)

struct WideEncodeScale {
  WordScale first;
  Factors second;
};
struct WideDecodeScale {
  Factors first;
  float second;         // 2^-(31 - L)
  std::int64_t weight;  // of the first word, in units of the second
};

// Keeps 62 - 2 L bits of the block's largest number. The first word's remainder is at most 1/2 in magnitude and is
// exact in float32. So n second words can be added without overflow, just as n first words can.
template <class Stored>
struct WideFloatForm : FloatForm<Stored> {
  using Element = Stored;
  using EncodeScale = WideEncodeScale;
  using DecodeScale = WideDecodeScale;
  static constexpr std::uint32_t kWords = 2;

  JAXINA_HOST_DEVICE static EncodeScale encode_scale(std::uint8_t exponent, Scale scale) {
    return {FloatForm<Stored>::encode_scale(exponent, scale), {power_of_two(31 - scale.log2_workers), 1}};
  }
  JAXINA_HOST_DEVICE static DecodeScale decode_scale(std::uint8_t exponent, Scale scale) {
    const int bits = 31 - scale.log2_workers;
    return {FloatForm<Stored>::decode_scale(exponent, scale), power_of_two(-bits), std::int64_t{1} << bits};
  }
  JAXINA_HOST_DEVICE static void encode(Element x, EncodeScale scale, std::uint32_t* words) {
    const std::uint32_t bits = widened_bits(x);
    const auto [factors, limit] = scale.first;
    const float scaled = times<ScalarVector>(ScalarVector::as_floats(finite<ScalarVector>(bits) ? bits : 0), factors);
    words[0] = quantized<ScalarVector>(bits, factors, limit);
    const float rest = scaled - ScalarVector::to_floats(words[0]);
    words[1] = quantized<ScalarVector>(ScalarVector::as_words(rest), scale.second, limit);
  }
  JAXINA_HOST_DEVICE static Element decode(const std::uint32_t* words, DecodeScale scale, bool keep, Element old) {
    if (keep && !finite<ScalarVector>(widened_bits(old))) return FloatForm<Stored>::narrowed(widened_bits(old));
    const auto first = static_cast<std::int32_t>(words[0]), second = static_cast<std::int32_t>(words[1]);
    const auto sum = static_cast<float>(first * scale.weight + second);
    return FloatForm<Stored>::narrowed(ScalarVector::as_words(times<ScalarVector>(sum * scale.second, scale.first)));
  }
};

// ---- float64

struct Float64Form {
  struct Element {
    std::uint64_t bits;
  };
  using EncodeScale = int;  // the power of two
  using DecodeScale = int;
  static constexpr std::uint32_t kWords = kFloat64Limbs;
  static constexpr bool kIsFloat = true;
  static constexpr std::uint32_t kNonFinite = 0x7ff;

  JAXINA_HOST_DEVICE static std::uint32_t magnitude(Element x) {
    return biased_exponent(std::bit_cast<double>(x.bits));
  }
  JAXINA_HOST_DEVICE static std::uint32_t finite_magnitude(Element x) {
    return magnitude(x) == kNonFinite ? 0 : magnitude(x);
  }
  JAXINA_HOST_DEVICE static std::uint8_t exponent(std::uint32_t largest) {
    return largest == kNonFinite ? kNonFiniteExponent : static_cast<std::uint8_t>(largest / kFloat64ExponentStep);
  }

  JAXINA_HOST_DEVICE static EncodeScale encode_scale(std::uint8_t exponent, Scale scale) {
    return float64_scale_exponent(exponent, scale);
  }
  JAXINA_HOST_DEVICE static DecodeScale decode_scale(std::uint8_t exponent, Scale scale) {
    return -float64_scale_exponent(exponent, scale);
  }
  JAXINA_HOST_DEVICE static void encode(Element x, EncodeScale power, std::uint32_t* words) {
    const __int128 value = magnitude(x) == kNonFinite ? 0 : scaled_integer(std::bit_cast<double>(x.bits), power);
    for (std::size_t i = 0; i < kFloat64Limbs; ++i) words[i] = limb(value, i);
  }
  JAXINA_HOST_DEVICE static Element decode(const std::uint32_t* words, DecodeScale power, bool keep, Element old) {
    if (keep && magnitude(old) == kNonFinite) return old;
    return {std::bit_cast<std::uint64_t>(scaled_double(from_limbs(words), power))};
  }
  JAXINA_HOST_DEVICE static std::uint32_t flag(Element x) {
    if (magnitude(x) != kNonFinite) return 0;
    const bool is_nan = x.bits << 12 != 0;
    return is_nan ? kPlusInfinityFlag | kMinusInfinityFlag : x.bits >> 63 ? kMinusInfinityFlag : kPlusInfinityFlag;
  }
  JAXINA_HOST_DEVICE static Element flagged(std::uint32_t flag, bool clear, Element old) {
    const bool plus = (flag & 0xffffu) != 0, minus = flag >> 16 != 0;
    if (plus || minus) return {plus && minus ? 0x7ff8000000000000u : plus ? 0x7ff0000000000000u : 0xfff0000000000000u};
    return clear ? Element{0} : old;
  }
};

// ---- integers: no exponents, nothing non-finite

struct NoScale {};

template <class Stored>
struct IntegerForm {
  struct Element {
    Stored bits;
  };
  using EncodeScale = NoScale;
  using DecodeScale = NoScale;
  static constexpr std::uint32_t kWords = sizeof(Stored) == 8 ? 4 : 1;
  static constexpr bool kIsFloat = false;

  JAXINA_HOST_DEVICE static EncodeScale encode_scale(std::uint8_t, Scale) { return {}; }
  JAXINA_HOST_DEVICE static DecodeScale decode_scale(std::uint8_t, Scale) { return {}; }
  JAXINA_HOST_DEVICE static void encode(Element x, EncodeScale, std::uint32_t* words) {
    if constexpr (kWords == 1) {
      words[0] = x.bits;
    } else {
      for (std::uint32_t i = 0; i < kWords; ++i) words[i] = static_cast<std::uint16_t>(x.bits >> (16 * i));
    }
  }
  JAXINA_HOST_DEVICE static Element decode(const std::uint32_t* words, DecodeScale, bool, Element) {
    if constexpr (kWords == 1) {
      return {static_cast<Stored>(words[0])};
    } else {
      std::uint64_t sum = 0;
      for (std::uint32_t i = 0; i < kWords; ++i) sum += std::uint64_t{words[i]} << (16 * i);
      return {sum};
    }
  }
};

}  // namespace
}  // namespace jaxina::numerics
