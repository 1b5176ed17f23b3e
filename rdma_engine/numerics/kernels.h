// Kernels: the functions that each instruction set provides. A file compiled for an instruction set may hold nothing
// but these loops. Otherwise an inline function shared with other files could be emitted there and kept by the linker,
// and would then run on a processor without that instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rdma_engine/numerics/block_fixed_point.h"
#include "rdma_engine/numerics/codec.h"

namespace jaxina::numerics {

// One block of an Exchange (codec.h).
struct BlockExchange {
  std::size_t count;
  const void* ahead;
  const void* x;
  Factors quantize_factors;
  std::int32_t limit;
  Store store;
  std::uint32_t* words;
  const std::uint32_t* sum;
  std::uint32_t shift;
  Factors dequantize_factors;
  bool streaming;
  void* y;
};

struct BlockExchanged {
  std::uint32_t largest;          // the largest |ahead[i]|, as its IEEE-754 bits
  std::uint32_t rounded_to_zero;  // elements of x that became 0, as quantize() counts them
};

// Kernels for one of float32, float16 and bfloat16: x, y and ahead point to elements of that type. float16 and bfloat16
// are widened to float32 and rounded back in registers.
struct FloatKernels {
  // The largest |x|, as its IEEE-754 bits. Returns 0 if there are no elements.
  std::uint32_t (*max_magnitude)(const void* x, std::size_t count);
  std::uint32_t (*max_finite_magnitude)(const void* x, std::size_t count);
  // Returns how many finite nonzero elements have become 0.
  std::uint32_t (*quantize)(const void* x, std::size_t count, Factors factors, std::int32_t limit, Store store,
                            std::uint32_t* dst);
  // Writes or adds words in host byte order. Element i takes the random number of (seed, i).
  void (*quantize_at_random)(const void* x, std::size_t count, Factors factors, std::int32_t limit, std::uint64_t seed,
                             bool add, std::uint32_t* dst);
  void (*dequantize)(const std::uint32_t* sum, std::size_t count, Factors factors, Order order, bool keep_non_finite,
                     void* y);
  void (*dequantize_streaming)(const std::uint32_t* sum, std::size_t count, Factors factors, Order order, void* y);
  BlockExchanged (*exchange)(const BlockExchange& block);
  void (*non_finite_flags)(const void* x, std::size_t count, Store store, std::uint32_t* dst);
  void (*apply_non_finite_flags)(const std::uint32_t* sum, std::size_t count, Order order, bool clear, void* y);
};

struct Kernels {
  FloatKernels float32, float16, bfloat16;
  void (*end_streaming)();
  // dst = word, or dst += word if `add`. Reverses the bytes of each source word first if the order is big-endian.
  void (*move_words)(const std::uint32_t* src, std::size_t count, Order order, bool add, std::uint32_t* dst);
  // Narrow words; see Codec.
  void (*pack)(const std::uint32_t* words, std::size_t count, WireWord word, std::uint32_t* packed);
  void (*unpack)(const std::uint32_t* packed, std::size_t count, WireWord word, bool add, std::uint32_t* words);
  void (*shift)(std::uint32_t* words, std::size_t count, std::uint32_t bits, Rounding rounding);
};

extern const Kernels kScalarKernels;
#if defined(__x86_64__)
extern const Kernels kAvx2Kernels;
extern const Kernels kAvx512Kernels;
#endif

}  // namespace jaxina::numerics
