// What one collective sums: a list of tensors, cut into blocks of k elements that never span two tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace jaxina {

enum class ElementType : std::uint8_t {
  kFloat32 = 1,  // block fixed point
  kInt32 = 2,    // exact modulo 2^32 (also uint32)
};

std::string_view to_string(ElementType type);

// One operand. `in` and `out` may be the same memory; both stay valid until the collective completes.
struct Tensor {
  ElementType type;
  std::size_t count;  // elements
  const void* in;
  void* out;
};

struct Collective {
  std::vector<Tensor> tensors;
};

}  // namespace jaxina
