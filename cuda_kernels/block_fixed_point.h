// Block fixed point on the GPU: between tensors and the words an aggregator adds, at the speed of the memory. The
// results have the same bits as numerics::ElementCodec, which runs the same arithmetic on the CPU.
//
// Every function queues one kernel on the stream (one more for each further kMaxRuns runs) and returns without waiting
// for it. Nothing is allocated and nothing is synchronized, so the calls can be captured in a CUDA graph. All pointers
// must be readable by the device that the stream belongs to: device memory, or host memory mapped into it. The stream's
// device must be the current one.
//
// This header needs nothing of CUDA's: a Stream is a cudaStream_t.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "rdma_engine/errors.h"
#include "rdma_engine/numerics/codec.h"
#include "rdma_engine/numerics/element_codec.h"
#include "rdma_engine/numerics/wire_words.h"

struct CUstream_st;

namespace jaxina::cuda {

using Stream = CUstream_st*;

// What all blocks of a call have in common.
struct Format {
  numerics::ElementType type = numerics::ElementType::kFloat32;
  std::uint32_t block_size = numerics::kDefaultBlockSize;  // words; block_size / element_codec(type).words elements
  std::uint32_t workers = 1;                               // n
  numerics::WireWord word = numerics::WireWord::kInt32;    // narrow words are for float32, float16 and bfloat16 only
  numerics::Order order = numerics::Order::kHost;          // byte order of the words in memory
};

// Consecutive blocks of one tensor, as they lie in one chunk or in several that follow one another: block i has
// elements [i * e, min((i + 1) * e, count)), where e = block_size / element_codec(type).words, and its words start at
// word i * block_size. All blocks but the last have e elements. A run whose tensor ends within it therefore takes
// (blocks - 1) * block_size + (elements of the last block) * element_codec(type).words words; what lies behind them is
// not touched. Pointers are aligned to their element or word at least; with 16 bytes, and a block size that is a
// multiple of 16, the kernels move 16 bytes at a time.

// The exponent byte of each block: 255 if any of its values is NaN or Inf, or, with finite_only, that of its finite
// values.
struct ExponentRun {
  const void* x;  // count elements
  std::size_t count;
  std::uint8_t* exponents;  // one a block, written
};

// Fixed point with the exponents given; NaN and Inf become 0. An exponent must not be 255.
struct QuantizeRun {
  const void* x;  // count elements
  std::size_t count;
  const std::uint8_t* exponents;  // one a block; integer types read none
  void* words;  // written; the words that fill a block up to block_size become 0, but for the last block
  std::uint64_t first_index = 0;  // of x[0] in its tensor: which random numbers stochastic rounding takes
};

// The sum of the workers' words, back into values.
struct DequantizeRun {
  const void* words;
  std::size_t count;              // elements
  const std::uint8_t* exponents;  // those that the words were quantized with
  void* y;                        // count elements, written
};

// Non-finite values travel beside, as words that add up (codec.h), always 32 bits wide.
struct FlagRun {
  const void* x;  // count elements
  std::size_t count;
  void* words;  // written as QuantizeRun's
};
struct ApplyFlagRun {
  const void* words;
  std::size_t count;
  void* y;  // NaN, +Inf and -Inf are written where the flags say so; other elements become 0 if `clear`, else stay
};

// The most runs that one kernel takes.
inline constexpr std::size_t kMaxRuns = 24;

// All of these fail with kInvalidArgument (a format that cannot be: block size, workers, a narrow word for an integer
// or 64-bit type, a word too narrow for n workers; a misaligned pointer) or kGpu (the launch failed; the message has
// CUDA's). A kernel that fails later is reported by whatever waits for the stream.

Status block_exponents(Stream stream, const Format& format, std::span<const ExponentRun> runs, bool finite_only);

Status quantize(Stream stream, const Format& format, std::span<const QuantizeRun> runs, numerics::Rounding rounding);

// In one pass: quantizes the chunks whose exponents came back, and finds the exponents of those that follow (255 for a
// block with NaN or Inf). The two lists are independent; either may be empty.
Status quantize_and_look_ahead(Stream stream, const Format& format, std::span<const QuantizeRun> now,
                               std::span<const ExponentRun> next, numerics::Rounding rounding);

// With keep_non_finite, elements of y that hold NaN or Inf stay as they are (apply_non_finite_flags wrote them).
Status dequantize(Stream stream, const Format& format, std::span<const DequantizeRun> runs, bool keep_non_finite);

Status non_finite_flags(Stream stream, const Format& format, std::span<const FlagRun> runs);

Status apply_non_finite_flags(Stream stream, const Format& format, std::span<const ApplyFlagRun> runs, bool clear);

// Zeros, where no run writes.
Status clear(Stream stream, std::span<std::uint32_t> words);

}  // namespace jaxina::cuda
