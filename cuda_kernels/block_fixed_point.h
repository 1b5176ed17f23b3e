// Block fixed point on the GPU: converts between tensors and the words that an aggregator adds, at the speed of the
// memory. The results have the same bits as those of numerics::ElementCodec, which runs the same arithmetic on the CPU.
//
// Every function queues one kernel for each kMaxRuns runs on the stream and returns without waiting. No function
// allocates or synchronizes, so the calls can be captured in a CUDA graph. The stream's device must be the current one,
// and must reach all memory that the pointers name: device memory, or host memory mapped into it.
//
// This header does not need CUDA: a Stream is a cudaStream_t.
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

// What all runs of a call have in common.
struct Format {
  numerics::ElementType type = numerics::ElementType::kFloat32;
  std::uint32_t block_size = numerics::kDefaultBlockSize;  // words; block_size / element_codec(type).words elements
  std::uint32_t workers = 1;                               // n, with words of 32 bits
  numerics::WireWord word = numerics::WireWord::kInt32;    // narrower ones: float32, float16 and bfloat16 only
  numerics::Order order = numerics::Order::kHost;          // byte order of the words in memory
  std::uint32_t shift = 0;  // with narrow words: by how many bits sums have been divided when they become values
};

// By how many bits a sum of narrow words is still to be divided, and how it is rounded then (wire_words.h).
struct Division {
  std::uint32_t bits = 0;
  bool stochastic = false;
};

// A run is consecutive blocks of one tensor, in one chunk or in consecutive chunks. Block i of a run has elements
// [i * e, min((i + 1) * e, count)), where e = block_size / element_codec(type).words. Its words start at word
// i * block_size. Only the last block may have fewer than e elements. So a run takes
// (blocks - 1) * block_size + (elements of the last block) * element_codec(type).words words, and narrow words that
// fill up the last 32 bits; what lies behind them is not touched.
//
// Each pointer must be aligned to its element or word. If pointers are aligned to 16 bytes and the block size is a
// multiple of 16, the kernels move 16 bytes at a time.

// Finds the exponent byte of each block. With finite_only it is that of the block's finite values; without, it is 255
// if any value is NaN or Inf.
struct ExponentRun {
  const void* x;  // count elements
  std::size_t count;
  std::uint8_t* exponents;  // written: one for each block
};

// Converts values to fixed-point words with the given exponents, none of which may be 255. NaN and Inf become 0.
struct QuantizeRun {
  const void* x;  // count elements
  std::size_t count;
  const std::uint8_t* exponents;  // one for each block; not read for integer types
  void* words;                    // written; in all blocks but the last, words after the elements' become 0
  std::uint64_t seed = 0;         // stochastic rounding: element i takes the random number of (seed, i)
};

// Converts the sum of the workers' words back to values.
struct DequantizeRun {
  const void* words;
  std::size_t count;              // elements
  const std::uint8_t* exponents;  // with which the workers quantized
  void* y;                        // written: count elements
  std::uint64_t seed = 0;         // of a Division, as above
};

// Non-finite values travel in a pass of their own, as flags: 32-bit words that can be added (codec.h). If the format's
// words are narrow, flags have 2 bits (wire::Format::kFlags), and each block takes packed_flags_size(block_size) 32-bit
// words, the last block too.
struct FlagRun {
  const void* x;  // count elements
  std::size_t count;
  void* words;  // written like QuantizeRun::words
};
struct ApplyFlagRun {
  const void* words;
  std::size_t count;
  void* y;  // flagged elements become NaN, +Inf or -Inf; the others become 0 if `clear` is set, else they stay
};

// The largest number of runs that one kernel takes.
inline constexpr std::size_t kMaxRuns = 24;

// All functions below fail with
//   kInvalidArgument: a block size or shift out of range, a narrow word or stochastic rounding for an integer or 64-bit
//                     type, narrow words in blocks that do not fill whole 32-bit words, or a misaligned pointer,
//   kTooManyWorkers:  a number of workers out of range,
//   kGpu:             the launch failed; the message contains CUDA's.
// If a kernel fails after its launch, whoever waits for the stream gets the error.

Status block_exponents(Stream stream, const Format& format, std::span<const ExponentRun> runs, bool finite_only);

Status quantize(Stream stream, const Format& format, std::span<const QuantizeRun> runs, bool stochastic);

// Quantizes to words of 32 bits in the host's order, rounded to nearest, and adds them to the words that are there.
// Fails with kInvalidArgument for other formats.
Status add_quantized(Stream stream, const Format& format, std::span<const QuantizeRun> runs);

// Quantizes `now`, the chunks whose exponents came back, and finds the exponents of `next`, the chunks that follow (255
// for a block with NaN or Inf), in one kernel. The two lists are independent; either may be empty.
Status quantize_and_look_ahead(Stream stream, const Format& format, std::span<const QuantizeRun> now,
                               std::span<const ExponentRun> next, bool stochastic);

// With keep_non_finite, elements of y that hold NaN or Inf stay as they are: apply_non_finite_flags wrote them.
Status dequantize(Stream stream, const Format& format, std::span<const DequantizeRun> runs, bool keep_non_finite);

// The same for sums of narrow words that have 32 bits each. It divides them first; the division's bits are among those
// of the format's shift.
Status divide_and_dequantize(Stream stream, const Format& format, std::span<const DequantizeRun> runs,
                             Division division, bool keep_non_finite);

Status non_finite_flags(Stream stream, const Format& format, std::span<const FlagRun> runs);

Status apply_non_finite_flags(Stream stream, const Format& format, std::span<const ApplyFlagRun> runs, bool clear);

// Sets words to 0; for words that no run writes.
Status clear(Stream stream, std::span<std::uint32_t> words);

}  // namespace jaxina::cuda
