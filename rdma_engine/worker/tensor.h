// What one collective sums: a list of tensors.
#pragma once

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
  TensorDevice* device = nullptr;  // whose memory the tensors lie in; nullptr: this processor's
};

}  // namespace jaxina
