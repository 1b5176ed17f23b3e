// What a kernel is told: its runs, and where each block of them lies. Made on the host (plan.h), passed by value, read
// by every thread.
//
// A group of 1 to 32 neighbouring threads handles one block; group g of the grid handles block g of the runs put one
// after another.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda_kernels/block_fixed_point.h"

namespace jaxina::cuda {

inline constexpr std::uint32_t kThreads = 256;  // of a thread block
inline constexpr std::uint32_t kWarp = 32;

template <class Run>
struct Runs {
  std::uint32_t count = 0;
  std::uint32_t wide = 0;                        // bit r: run r lies so that whole vectors can be moved
  std::uint64_t first_block[kMaxRuns + 1] = {};  // of each run; and the number of all blocks, after the last
  Run run[kMaxRuns] = {};

  JAXINA_HOST_DEVICE std::uint64_t blocks() const { return first_block[count]; }
};

struct BlockShape {
  std::uint32_t elements;  // of a whole block
  std::uint32_t words;     // from one block's first word to the next block's
};

// One block of one run.
template <class Run>
struct Place {
  const Run* run;
  std::uint64_t block;          // in the run
  std::uint64_t first_element;  // in the run
  std::uint64_t first_word;
  std::uint32_t elements;
  bool wide;
  bool last;  // of the run
};

template <class Run>
JAXINA_HOST_DEVICE Place<Run> place(const Runs<Run>& runs, BlockShape shape, std::uint64_t block) {
  std::uint32_t r = 0;
  while (block >= runs.first_block[r + 1]) ++r;
  Place<Run> place;
  place.run = &runs.run[r];
  place.block = block - runs.first_block[r];
  place.first_element = place.block * shape.elements;
  place.first_word = place.block * shape.words;
  const std::uint64_t left = place.run->count - place.first_element;
  place.last = left <= shape.elements;
  place.elements = place.last ? static_cast<std::uint32_t>(left) : shape.elements;
  place.wide = (runs.wide >> r & 1) != 0;
  return place;
}

struct ExponentJob {
  Runs<ExponentRun> runs;
  BlockShape shape;
  std::uint32_t log2_lanes = 0;
  bool finite_only = false;
  JAXINA_HOST_DEVICE std::uint32_t lanes() const { return 1u << log2_lanes; }  // threads of a group
};

struct EncodeJob {
  Runs<QuantizeRun> runs;
  BlockShape shape;
  std::uint32_t log2_lanes = 0;
  numerics::Scale scale;
  std::uint64_t seed = 0;  // of stochastic rounding
  bool swap = false;       // the bytes of each word
  JAXINA_HOST_DEVICE std::uint32_t lanes() const { return 1u << log2_lanes; }
};

struct DecodeJob {
  Runs<DequantizeRun> runs;
  BlockShape shape;
  std::uint32_t log2_lanes = 0;
  numerics::Scale scale;
  bool swap = false;
  bool keep = false;  // what is NaN or Inf, or what is not flagged
  JAXINA_HOST_DEVICE std::uint32_t lanes() const { return 1u << log2_lanes; }
};

// One thread's place in its group.
struct Lane {
  std::uint64_t group;
  std::uint32_t index;
};

JAXINA_HOST_DEVICE inline Lane lane_of(std::uint64_t thread, std::uint32_t log2_lanes) {
  return {thread >> log2_lanes, static_cast<std::uint32_t>(thread) & ((1u << log2_lanes) - 1)};
}

// How many elements are moved at once: so many that the larger of the element and its word fills 16 bytes. A warp then
// reads and writes whole lines on both sides. Types of several words go one by one.
JAXINA_HOST_DEVICE constexpr std::uint32_t vector_size(std::size_t element_bytes, std::size_t words,
                                                       std::size_t word_bytes) {
  return words > 1 ? 1 : static_cast<std::uint32_t>(16 / (element_bytes > word_bytes ? element_bytes : word_bytes));
}

// The same where elements are only read.
JAXINA_HOST_DEVICE constexpr std::uint32_t exponent_vector_size(std::size_t element_bytes) {
  return static_cast<std::uint32_t>(16 / element_bytes);
}

// Vectors a thread loads before it stores.
inline constexpr std::uint32_t kInFlight = 2;

}  // namespace jaxina::cuda
