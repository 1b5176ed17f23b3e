// Bulk conversion between tensors and the 32-bit words an aggregator adds. Runs the widest instruction set the
// processor has; every variant gives the same bits as block_fixed_point.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "rdma_engine/numerics/block_fixed_point.h"

namespace jaxina::numerics {

// Where encoded words go.
enum class Store : std::uint8_t {
  kWrite,      // dst = word, host byte order
  kAdd,        // dst += word, host byte order (an aggregator's slot)
  kBigEndian,  // dst = word, network byte order (a packet)
};

// How words that come back are ordered.
enum class Order : std::uint8_t { kHost, kBigEndian };

// One step of a stream of floats of one type: the exponents of one stretch, another quantized with exponents that are
// known, a third brought back from its sum. The stretches have as many blocks and do not overlap, but y may be x or
// `ahead` of an earlier step.
struct Exchange {
  std::size_t blocks, block_size;  // elements of a block
  const void* ahead;
  std::uint8_t* ahead_exponents;  // one per block; the maximum with what is there if merge_exponents
  bool merge_exponents;
  const void* x;
  const std::uint8_t* x_exponents;
  Store store;  // kWrite or kAdd
  std::uint32_t* words;
  const std::uint32_t* sum;  // host byte order
  const std::uint8_t* sum_exponents;
  bool streaming;  // as dequantize_streaming
  void* y;
};

// For float32, float16 or bfloat16: x and y point to elements of that type, unaligned to anything but these; counts are
// in elements; x and y of one call may be the same memory. `exponent` is the block's global exponent byte (never 255:
// non-finite blocks are quantized with the exponent of their finite values). Narrow floats are widened to float32,
// which is exact, and rounded once, from the float32 that the sum stands for.
struct FloatCodec {
  // The exponent byte of x[0..count): the largest biased exponent field of float32, 255 if any value is NaN or Inf.
  std::uint8_t (*exponent)(const void* x, std::size_t count);
  // The same over the finite values only (0 if there are none).
  std::uint8_t (*finite_exponent)(const void* x, std::size_t count);
  // floats -> fixed point; NaN and Inf become 0. Returns how many other elements than these and zeros have become 0.
  std::size_t (*quantize)(const void* x, std::size_t count, std::uint8_t exponent, Scale scale, Store store,
                          std::uint32_t* dst);
  // sum of fixed point -> floats. With keep_non_finite, elements of y that hold NaN or Inf stay as they are (a NaN
  // quiet).
  void (*dequantize)(const std::uint32_t* sum, std::size_t count, std::uint8_t exponent, Scale scale, Order order,
                     bool keep_non_finite, void* y);
  // The same without keep_non_finite, past the caches where the processor can. Before another thread may read y,
  // Codec::end_streaming() has to be called.
  void (*dequantize_streaming)(const std::uint32_t* sum, std::size_t count, std::uint8_t exponent, Scale scale,
                               Order order, void* y);
  // Does what exponent, quantize and dequantize do, a vector of each at a time: one waits for memory while another
  // computes, and a third's writes drain. Returns what quantize returns.
  std::size_t (*exchange)(const Exchange& step, Scale scale);
  // Non-finite values as words that add up: +Inf is 1 in the low half, -Inf is 1 in the high half, NaN is both.
  void (*non_finite_flags)(const void* x, std::size_t count, Store store, std::uint32_t* dst);
  // Writes NaN, +Inf or -Inf into y where flags say so, by IEEE addition's rules (Inf - Inf = NaN). Other elements get
  // 0 if `clear`, else stay as they are.
  void (*apply_non_finite_flags)(const std::uint32_t* sum, std::size_t count, Order order, bool clear, void* y);
};

struct Codec {
  std::string_view name;  // "scalar", "avx2", "avx512"
  FloatCodec float32, float16, bfloat16;
  void (*end_streaming)();
  // 32-bit integers, exact modulo 2^32.
  void (*encode_int32)(const std::uint32_t* x, std::size_t count, Store store, std::uint32_t* dst);
  void (*decode_int32)(const std::uint32_t* sum, std::size_t count, Order order, std::uint32_t* y);
  // slot[i] += word i of a packet, modulo 2^32 (the aggregator's adder), and slot[i] = word i.
  void (*add_big_endian)(const std::uint32_t* packet, std::size_t count, std::uint32_t* slot);
  void (*load_big_endian)(const std::uint32_t* packet, std::size_t count, std::uint32_t* slot);
};

// The fastest variant this processor runs; JAXINA_CODEC=scalar|avx2|avx512 overrides it.
const Codec& codec();

// A named variant, or nullptr if this processor cannot run it (for tests and benchmarks).
const Codec* codec_named(std::string_view name);

}  // namespace jaxina::numerics
