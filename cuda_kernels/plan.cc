// Checks formats and pointers, and counts the blocks and threads of a kernel.
#include "cuda_kernels/plan.h"

#include <algorithm>
#include <bit>
#include <initializer_list>
#include <string>
#include <utility>

namespace jaxina::cuda {
namespace {

using numerics::ElementCodec;
using numerics::WireWord;

constexpr auto kMaxShift = static_cast<std::uint32_t>(numerics::kMaxNarrowShift);

const ElementCodec& codec_of(const Format& format) { return numerics::element_codec(format.type); }

BlockShape shape_of(const Format& format) {
  return {static_cast<std::uint32_t>(format.block_size / codec_of(format).words), format.block_size};
}

bool is_narrow(const Format& format) { return format.word != WireWord::kInt32; }

Status check(const Format& format, bool stochastic = false) {
  using numerics::kMaxBlockSize, numerics::kMinBlockSize, numerics::kMaxWorkers;
  if (format.block_size < kMinBlockSize || format.block_size > kMaxBlockSize) {
    return {ErrorCode::kInvalidArgument, "a block has " + std::to_string(kMinBlockSize) + " to " +
                                             std::to_string(kMaxBlockSize) + " words, not " +
                                             std::to_string(format.block_size)};
  }
  if (format.workers == 0 || format.workers > kMaxWorkers) {
    return {ErrorCode::kTooManyWorkers, "the format allows 1 to " + std::to_string(kMaxWorkers) + " workers, not " +
                                            std::to_string(format.workers)};
  }
  const bool one_word_float = codec_of(format).is_float && codec_of(format).words == 1;
  if ((is_narrow(format) || stochastic) && !one_word_float) {
    return {ErrorCode::kInvalidArgument,
            "narrow words and stochastic rounding are for float32, float16 and bfloat16, not " +
                std::string(to_string(format.type))};
  }
  if (is_narrow(format) && format.block_size % numerics::kNarrowBlockStep != 0) {
    return {ErrorCode::kInvalidArgument, "narrow words need a block size that is a multiple of " +
                                             std::to_string(numerics::kNarrowBlockStep) + ", not " +
                                             std::to_string(format.block_size)};
  }
  if (format.shift > (is_narrow(format) ? kMaxShift : 0)) {
    return {ErrorCode::kInvalidArgument,
            "sums are divided only if words are narrow, by at most " + std::to_string(kMaxShift) + " bits"};
  }
  return {};
}

// One of the two arrays that a run moves data between: elements or words.
struct Side {
  const void* pointer;
  std::size_t bytes;  // size of one element or word
  const char* name;
};

Status misaligned(const char* name) {
  return {ErrorCode::kInvalidArgument,
          std::string("the GPU kernels need ") + name + " in memory that is aligned to one of them"};
}

bool aligned(const void* pointer, std::size_t bytes) {
  return pointer != nullptr && reinterpret_cast<std::uintptr_t>(pointer) % bytes == 0;
}

// Appends a run to `runs` and counts its blocks. It is wide if all its sides are aligned to whole vectors.
template <class Run>
Status add(const Run& run, const std::uint8_t* exponents, bool needs_exponents, BlockShape shape, std::uint32_t vector,
           std::initializer_list<Side> sides, Runs<Run>& runs) {
  const std::uint32_t r = runs.count++;
  runs.run[r] = run;
  runs.first_block[r + 1] = runs.first_block[r] + (run.count + shape.elements - 1) / shape.elements;
  if (run.count == 0) return {};
  bool wide = vector > 1 && shape.elements % vector == 0;
  for (const Side& side : sides) {
    if (!aligned(side.pointer, side.bytes)) return misaligned(side.name);
    wide = wide && aligned(side.pointer, side.bytes * vector);
  }
  if (needs_exponents && exponents == nullptr) return misaligned("exponents");
  if (wide) runs.wide |= 1u << r;
  return {};
}

// Returns the logarithm of a group's size: so many threads that each moves about `in_flight` vectors of a block, but at
// most a warp.
std::uint32_t log2_lanes_for(BlockShape shape, std::uint32_t vector, std::uint32_t in_flight = kInFlight) {
  const std::uint32_t wanted = std::clamp(std::bit_ceil(shape.elements / (vector * in_flight)), 1u, kWarp);
  return static_cast<std::uint32_t>(std::countr_zero(wanted));
}

bool swaps(const Format& format) {
  return format.order == numerics::Order::kBigEndian && std::endian::native == std::endian::little;
}

// Plans encoding or decoding: both have elements on one side and words on the other. `stored`: the width of the words
// in memory.
template <class Job, class Run, class SidesOf>
Status plan_moves(const Format& format, WireWord stored, std::span<const Run> runs, bool exponents, SidesOf sides_of,
                  Job& job) {
  const ElementCodec& codec = codec_of(format);
  const auto word_bytes = static_cast<std::size_t>(stored);
  const std::uint32_t vector = vector_size(codec.size, codec.words, word_bytes);
  job.shape = shape_of(format);
  job.log2_lanes = log2_lanes_for(job.shape, vector);
  job.swap = swaps(format);
  for (const Run& run : runs) {
    const auto [elements, words] = sides_of(run);
    const Status added = add(run, run.exponents, exponents && codec.is_float, job.shape, vector,
                             {{elements, codec.size, "elements"}, {words, word_bytes, "words"}}, job.runs);
    if (!added.ok()) return added;
  }
  return {};
}

Status plan_encode(const Format& format, WireWord stored, std::span<const QuantizeRun> runs, bool exponents,
                   EncodeJob& job) {
  job.scale = is_narrow(format) ? numerics::narrow_scale(format.word, 0) : numerics::scale_for(format.workers);
  return plan_moves(
      format, stored, runs, exponents,
      [](const QuantizeRun& run) { return std::pair(run.x, static_cast<const void*>(run.words)); }, job);
}

Status plan_decode(const Format& format, WireWord stored, std::span<const DequantizeRun> runs, bool exponents,
                   DecodeJob& job) {
  job.scale = is_narrow(format) ? numerics::narrow_scale(format.word, static_cast<std::int32_t>(format.shift))
                                : numerics::scale_for(format.workers);
  const Status planned = plan_moves(
      format, stored, runs, exponents,
      [](const DequantizeRun& run) { return std::pair(static_cast<const void*>(run.y), run.words); }, job);
  // Keeping old values is rare, and for whole vectors it would take many registers.
  if (job.keep) job.runs.wide = 0;
  return planned;
}

// The shape of blocks whose words are flags.
BlockShape shape_of_flags(const Format& format) {
  BlockShape shape = shape_of(format);
  if (is_narrow(format)) shape.words = static_cast<std::uint32_t>(numerics::packed_flags_size(format.block_size));
  return shape;
}

}  // namespace

Status plan(const Format& format, std::span<const ExponentRun> runs, bool finite_only, ExponentJob& job) {
  if (Status checked = check(format); !checked.ok()) return checked;
  const ElementCodec& codec = codec_of(format);
  const std::uint32_t vector = exponent_vector_size(codec.size);
  job.shape = shape_of(format);
  job.log2_lanes = log2_lanes_for(job.shape, vector, exponents_in_flight(codec.size));
  job.finite_only = finite_only;
  for (const ExponentRun& run : runs) {
    const Status added = add(run, run.exponents, true, job.shape, vector, {{run.x, codec.size, "elements"}}, job.runs);
    if (!added.ok()) return added;
  }
  return {};
}

Status plan(const Format& format, std::span<const QuantizeRun> runs, bool stochastic, EncodeJob& job) {
  if (Status checked = check(format, stochastic); !checked.ok()) return checked;
  return plan_encode(format, format.word, runs, true, job);
}

Status plan_adding(const Format& format, std::span<const QuantizeRun> runs, EncodeJob& job) {
  if (is_narrow(format) || format.order != numerics::Order::kHost) {
    return {ErrorCode::kInvalidArgument, "words are added in 32 bits and in the host's byte order"};
  }
  return plan(format, runs, false, job);
}

Status plan(const Format& format, std::span<const DequantizeRun> runs, bool keep_non_finite, DecodeJob& job) {
  if (Status checked = check(format); !checked.ok()) return checked;
  job.keep = keep_non_finite;
  return plan_decode(format, format.word, runs, true, job);
}

Status plan(const Format& format, std::span<const DequantizeRun> runs, Division division, bool keep_non_finite,
            DecodeJob& job) {
  if (Status checked = check(format); !checked.ok()) return checked;
  if (!is_narrow(format) || division.bits > format.shift) {
    return {ErrorCode::kInvalidArgument, "only sums of narrow words are divided, by bits that are part of their shift"};
  }
  job.keep = keep_non_finite;
  job.division = division;
  return plan_decode(format, WireWord::kInt32, runs, true, job);
}

Status plan(const Format& format, std::span<const FlagRun> runs, EncodeJob& job) {
  if (Status checked = check(format); !checked.ok()) return checked;
  QuantizeRun moves[kMaxRuns];
  for (std::size_t r = 0; r < runs.size(); ++r) moves[r] = {runs[r].x, runs[r].count, nullptr, runs[r].words};
  const Status planned = plan_encode(format, WireWord::kInt32, {moves, runs.size()}, false, job);
  job.shape = shape_of_flags(format);
  return planned;
}

Status plan(const Format& format, std::span<const ApplyFlagRun> runs, bool clear, DecodeJob& job) {
  if (Status checked = check(format); !checked.ok()) return checked;
  DequantizeRun moves[kMaxRuns];
  for (std::size_t r = 0; r < runs.size(); ++r) moves[r] = {runs[r].words, runs[r].count, nullptr, runs[r].y};
  job.keep = !clear;
  const Status planned = plan_decode(format, WireWord::kInt32, {moves, runs.size()}, false, job);
  job.shape = shape_of_flags(format);
  return planned;
}

std::uint32_t thread_blocks(std::uint64_t groups, std::uint32_t log2_lanes) {
  return static_cast<std::uint32_t>(((groups << log2_lanes) + kThreads - 1) / kThreads);
}

}  // namespace jaxina::cuda
