// What one collective sums: a list of tensors.
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
  bool streams = false;  // the result is written past the caches
};

struct Collective {
  std::vector<Tensor> tensors;
  std::uint64_t identity = 0;  // names the call in the program; workers whose identities differ get kMismatch
  // Counts the finite numbers other than zero that became zero, because their block has a number too many times as
  // large. Outlives the collective; not of tensors on devices.
  std::atomic<std::uint64_t>* rounded_to_zero = nullptr;
  TensorDevice* device = nullptr;  // whose memory the tensors lie in; nullptr: this processor's
};

}  // namespace jaxina
