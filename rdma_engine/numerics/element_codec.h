// ElementCodec: how each element type travels in 32-bit words. Codec has the kernels for the one-word floats and int32.
//
//   type               words   form
//   float32              1     block fixed point
//   float16, bfloat16    1     widened to float32 (exact), summed as such, rounded once at the end
//   the same, wide       2     62 bits of block fixed point instead of 31
//   int8, int16, int32   1     zero-extended; exact modulo 2^bits, so signed and unsigned are the same
//   int64                4     16-bit limbs, exact modulo 2^64
//   float64              5     80-bit block fixed point in 16-bit limbs, see float64_limbs.h
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "rdma_engine/numerics/codec.h"

namespace jaxina::numerics {

enum class ElementType : std::uint8_t {
  kFloat32 = 1,
  kInt32 = 2,
  kFloat16 = 3,
  kBfloat16 = 4,
  kFloat64 = 5,
  kInt8 = 6,
  kInt16 = 7,
  kInt64 = 8,
  kWideFloat32 = 9,
  kWideFloat16 = 10,
  kWideBfloat16 = 11,
};

// The form that a type uses when floats get `bits` bits, 32 or 64. Other types have only one form.
ElementType in_bits(ElementType type, std::int64_t bits);

std::string_view to_string(ElementType type);

// Functions that convert one block. `count` is at most the job's block size divided by `words`. The arguments are those
// of Codec. All functions are thread-safe.
struct ElementCodec {
  ElementType type;
  std::size_t size;   // bytes of an element
  std::size_t words;  // 32-bit words of an element on the wire
  bool is_float;      // has exponents and non-finite values

  std::uint8_t (*exponent)(const Codec&, const void* x, std::size_t count);
  std::uint8_t (*finite_exponent)(const Codec&, const void* x, std::size_t count);
  // Returns how many finite nonzero elements have become words of 0.
  std::size_t (*encode)(const Codec&, const void* x, std::size_t count, std::uint8_t exponent, Scale, Store,
                        std::uint32_t* dst);
  // See FloatCodec::quantize_at_random. Null for types that only have words of 32 bits; see may_be_narrow.
  void (*encode_at_random)(const Codec&, const void* x, std::size_t count, std::uint8_t exponent, Scale,
                           std::uint64_t seed, bool add, std::uint32_t* dst);
  void (*decode)(const Codec&, const std::uint32_t* sum, std::size_t count, std::uint8_t exponent, Scale, Order,
                 bool keep_non_finite, void* y);
  // The same without keep_non_finite, for large results. See FloatCodec::dequantize_streaming.
  void (*decode_streaming)(const Codec&, const std::uint32_t* sum, std::size_t count, std::uint8_t exponent, Scale,
                           Order, void* y);
  // See FloatCodec. Null for types without a combined kernel: they compute exponents, words and results one after the
  // other.
  std::size_t (*exchange)(const Codec&, const Exchange&, Scale encode, Scale decode);
  // Flags take as many words as data.
  void (*flags)(const Codec&, const void* x, std::size_t count, Store, std::uint32_t* dst);
  void (*apply_flags)(const Codec&, const std::uint32_t* sum, std::size_t count, Order, bool clear, void* y);
};

const ElementCodec& element_codec(ElementType type);

// Whether elements of this type may take words of 8 or 16 bits.
inline bool may_be_narrow(ElementType type) { return element_codec(type).encode_at_random != nullptr; }

// The largest block size, in words.
inline constexpr std::size_t kMaxBlockSize = 16384;
// The smallest block size, in words. It holds one float64, which has five words.
inline constexpr std::size_t kMinBlockSize = 8;

}  // namespace jaxina::numerics
