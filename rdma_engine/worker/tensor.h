// Tensor and Collective: the tensors that one collective sums.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "rdma_engine/numerics/element_codec.h"

namespace jaxina {

class TensorDevice;

using numerics::ElementType;

// One operand. `in` and `out` may be the same memory; both stay valid until the collective completes.
struct Tensor {
  ElementType type;
  std::size_t count;  // elements
  const void* in;
  void* out;
  bool streams = false;  // write the result past the caches
  // Narrow words: only types with may_be_narrow().
  numerics::WireWord word = numerics::WireWord::kInt32;
};

struct Collective {
  std::vector<Tensor> tensors;
  std::uint64_t identity = 0;  // identifies the call in the program; workers with different identities get kMismatch
  // Counts the finite nonzero numbers that became zero because a number in their block is too many times larger. Must
  // outlive the collective. Does not count tensors on devices.
  std::atomic<std::uint64_t>* rounded_to_zero = nullptr;
  TensorDevice* device = nullptr;  // the device whose memory holds the tensors; nullptr: host memory
  // How narrow words are rounded. The seed is the collective's own; the worker derives those of devices and sums from
  // it.
  numerics::Rounding rounding = {};
  // If this is a part of a collective: how many blocks with narrow words lie before it.
  std::uint64_t narrow_blocks_before = 0;
};

}  // namespace jaxina
