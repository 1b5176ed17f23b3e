// Codec: converts arrays between tensor elements and the 32-bit words that an aggregator adds. codec() uses the widest
// instruction set of the processor. All variants give the same bits as block_fixed_point.h. All functions are
// thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "rdma_engine/numerics/block_fixed_point.h"

namespace jaxina::numerics {

// Where and how encoded words are stored.
enum class Store : std::uint8_t {
  kWrite,      // dst = word, host byte order
  kAdd,        // dst += word, host byte order (an aggregator's slot)
  kBigEndian,  // dst = word, network byte order (a packet)
};

// The byte order of the words to decode.
enum class Order : std::uint8_t { kHost, kBigEndian };

// One step of a stream of floats of one type, on three stretches of it at once: it computes the exponents of `ahead`,
// quantizes `x` with known exponents, and dequantizes `sum` into `y`. The three stretches have the same number of
// blocks and do not overlap, but y may be x or `ahead` of an earlier step.
struct Exchange {
  std::size_t blocks, block_size;  // block_size: elements of a block
  const void* ahead;
  std::uint8_t* ahead_exponents;  // one per block; merge_exponents: keep the maximum with the value there
  bool merge_exponents;
  const void* x;
  const std::uint8_t* x_exponents;
  Store store;  // kWrite or kAdd
  std::uint32_t* words;
  const std::uint32_t* sum;  // host byte order
  const std::uint8_t* sum_exponents;
  bool streaming;  // as in dequantize_streaming
  void* y;
  std::uint32_t shift = 0;  // sums are divided by 2^shift before they are dequantized, and rounded to nearest
};

// Kernels for float32, float16 or bfloat16. x and y point to elements of that type and need only its alignment; within
// one call they may be the same memory. Counts are in elements. `exponent` is the exponent byte of the block over all
// workers. It is never 255: a block with NaN or Inf is quantized with the exponent of its finite values. float16 and
// bfloat16 are widened to float32, which is exact. The result is rounded to them once, from the float32 that the sum
// stands for.
struct FloatCodec {
  // The exponent byte of x[0..count): the largest biased exponent field of float32, 255 if any value is NaN or Inf.
  std::uint8_t (*exponent)(const void* x, std::size_t count);
  // The same over the finite values only; 0 if there are none.
  std::uint8_t (*finite_exponent)(const void* x, std::size_t count);
  // floats -> fixed point; NaN and Inf become 0. Returns how many other nonzero elements have become 0.
  std::size_t (*quantize)(const void* x, std::size_t count, std::uint8_t exponent, Scale scale, Store store,
                          std::uint32_t* dst);
  // The same with stochastic rounding: element i takes the random number of (seed, i). Writes words in host byte order,
  // or adds them. Counts nothing.
  void (*quantize_at_random)(const void* x, std::size_t count, std::uint8_t exponent, Scale scale, std::uint64_t seed,
                             bool add, std::uint32_t* dst);
  // Sum of fixed point -> floats. With keep_non_finite, elements of y that are NaN or Inf stay as they are (a NaN
  // becomes quiet).
  void (*dequantize)(const std::uint32_t* sum, std::size_t count, std::uint8_t exponent, Scale scale, Order order,
                     bool keep_non_finite, void* y);
  // The same without keep_non_finite. Writes past the caches where the processor can. Call Codec::end_streaming()
  // before another thread may read y.
  void (*dequantize_streaming)(const std::uint32_t* sum, std::size_t count, std::uint8_t exponent, Scale scale,
                               Order order, void* y);
  // Does the work of exponent, quantize and dequantize, one vector of each at a time. This overlaps them: one waits for
  // memory while another computes and the writes of the third drain. Returns what quantize returns.
  std::size_t (*exchange)(const Exchange& step, Scale encode, Scale decode);
  // Encodes NaN and Inf as words that can be added: +Inf is 1 in the low half, -Inf is 1 in the high half, NaN is both.
  void (*non_finite_flags)(const void* x, std::size_t count, Store store, std::uint32_t* dst);
  // Writes NaN, +Inf or -Inf into y where the summed flags say so, as IEEE addition would give (Inf - Inf = NaN). The
  // other elements become 0 if `clear` is set; else they stay as they are.
  void (*apply_non_finite_flags)(const std::uint32_t* sum, std::size_t count, Order order, bool clear, void* y);
};

struct Codec {
  std::string_view name;  // "scalar", "avx2", "avx512"
  FloatCodec float32, float16, bfloat16;
  void (*end_streaming)();
  // 32-bit integers, exact modulo 2^32.
  void (*encode_int32)(const std::uint32_t* x, std::size_t count, Store store, std::uint32_t* dst);
  void (*decode_int32)(const std::uint32_t* sum, std::size_t count, Order order, std::uint32_t* y);
  // The aggregator's adder: slot[i] += word i of a packet, modulo 2^32. load_big_endian sets slot[i] = word i instead.
  void (*add_big_endian)(const std::uint32_t* packet, std::size_t count, std::uint32_t* slot);
  void (*load_big_endian)(const std::uint32_t* packet, std::size_t count, std::uint32_t* slot);
  // Narrow words, which must be in range, between one 32-bit word each and the form in packets: 8 bits, or 16 bits
  // big-endian, one after the other. pack() fills up the last 32-bit word of the packet with zeros. The two memories do
  // not overlap. unpack() adds if `add` is set.
  void (*pack)(const std::uint32_t* words, std::size_t count, WireWord word, std::uint32_t* packed);
  void (*unpack)(const std::uint32_t* packed, std::size_t count, WireWord word, bool add, std::uint32_t* words);
  // Divides sums by 2^bits, in place, and rounds. Element i takes the random number of (seed, i).
  void (*shift)(std::uint32_t* words, std::size_t count, std::uint32_t bits, Rounding rounding);
};

// The fastest variant for this processor. JAXINA_CODEC=scalar|avx2|avx512 overrides the choice; throws
// Error(kInvalidArgument) if that variant is unknown or cannot run here.
const Codec& codec();

// The variant of this name, or nullptr if this processor cannot run it. For tests and benchmarks.
const Codec* codec_named(std::string_view name);

}  // namespace jaxina::numerics
