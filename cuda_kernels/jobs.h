// The arguments of a kernel: its runs, and where each of their blocks lies. The host makes them (plan.h) and passes
// them by value; every thread reads them.
//
// A group of 1 to 32 neighbouring threads handles one block. The blocks of all runs are numbered through, run after
// run, and group g of the grid handles block g.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda_kernels/block_fixed_point.h"

namespace jaxina::cuda {

inline constexpr std::uint32_t kThreads = 256;  // threads of a CUDA thread block
inline constexpr std::uint32_t kWarp = 32;

template <class Run>
struct Runs {
  std::uint32_t count = 0;
  std::uint32_t wide = 0;                        // bit r: run r is aligned so that whole vectors can be moved
  std::uint64_t first_block[kMaxRuns + 1] = {};  // of each run; after the last run, the number of all blocks
  Run run[kMaxRuns] = {};

  JAXINA_HOST_DEVICE std::uint64_t blocks() const { return first_block[count]; }
};

struct BlockShape {
  std::uint32_t elements;  // in a whole block
  std::uint32_t words;     // from a block's first word to the next block's first word
};

// Where one block lies.
template <class Run>
struct Place {
  const Run* run;
  std::uint64_t block;          // in the run
  std::uint64_t first_element;  // in the run
  std::uint64_t first_word;
  std::uint32_t elements;
  bool wide;
  bool last;  // whether it is the run's last block
};

// Returns the place of the block with this number among the blocks of all runs.
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
  JAXINA_HOST_DEVICE std::uint32_t lanes() const { return 1u << log2_lanes; }  // threads in a group
};

struct EncodeJob {
  Runs<QuantizeRun> runs;
  BlockShape shape;
  std::uint32_t log2_lanes = 0;
  numerics::Scale scale;
  bool swap = false;  // whether to swap the bytes of each word
  JAXINA_HOST_DEVICE std::uint32_t lanes() const { return 1u << log2_lanes; }
};

struct DecodeJob {
  Runs<DequantizeRun> runs;
  BlockShape shape;
  std::uint32_t log2_lanes = 0;
  numerics::Scale scale;
  bool swap = false;
  bool keep = false;  // decoding words: NaN and Inf in y stay; decoding flags: elements without a flag stay
  Division division = {};
  JAXINA_HOST_DEVICE std::uint32_t lanes() const { return 1u << log2_lanes; }
};

// A thread's group, and its place in the group.
struct Lane {
  std::uint64_t group;
  std::uint32_t index;
};

JAXINA_HOST_DEVICE inline Lane lane_of(std::uint64_t thread, std::uint32_t log2_lanes) {
  return {thread >> log2_lanes, static_cast<std::uint32_t>(thread) & ((1u << log2_lanes) - 1)};
}

// Returns how many elements are moved at once: as many as make 16 bytes of elements or of words, whichever are larger.
// So a warp reads and writes whole cache lines on both sides. Types of several words are moved one by one.
JAXINA_HOST_DEVICE constexpr std::uint32_t vector_size(std::size_t element_bytes, std::size_t words,
                                                       std::size_t word_bytes) {
  return words > 1 ? 1 : static_cast<std::uint32_t>(16 / (element_bytes > word_bytes ? element_bytes : word_bytes));
}

// Returns how many elements are moved at once where they are only read.
JAXINA_HOST_DEVICE constexpr std::uint32_t exponent_vector_size(std::size_t element_bytes) {
  return static_cast<std::uint32_t>(16 / element_bytes);
}

// How many vectors a thread loads before it stores the first.
inline constexpr std::uint32_t kInFlight = 2;

// The same in a kernel that only reads. 16-bit elements take more registers than a thread has for four.
JAXINA_HOST_DEVICE constexpr std::uint32_t exponents_in_flight(std::size_t element_bytes) {
  return element_bytes == 4 ? 4 : kInFlight;
}

}  // namespace jaxina::cuda
