// The expected sums of tensors with narrow words (numerics/wire_words.h), computed independently of the project's
// codec.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace jaxina::sim {

// A tensor's values as 32-bit patterns.
using Words = std::vector<std::uint32_t>;

struct NarrowSum {
  int bits = 8;                            // of a word
  std::size_t block_size = 1;              // elements
  std::uint64_t first_block = 0;           // the tensor's first block among the collective's narrow blocks
  std::optional<std::uint64_t> seed = {};  // of the collective; nullopt rounds to nearest
};

// The sum of float32. inputs[w] belongs to worker w, which has one device.
Words expected_narrow_sum(const std::vector<Words>& inputs, const NarrowSum& form);

}  // namespace jaxina::sim
