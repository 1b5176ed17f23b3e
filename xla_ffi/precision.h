// Precision: how the floating-point tensors of a program are rounded on their way. jaxina/_tracing_settings.py has the
// same settings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "rdma_engine/worker/tensor.h"

namespace jaxina {

struct Precision {
  std::int64_t bits = 32;            // on the wire, of a float of at most 32 bits: 8, 16, 32 or 64
  std::int64_t smallest = 0;         // smaller tensors never have 8 or 16 bits
  numerics::Rounding rounding = {};  // of 8 and 16 bits

  // From the custom call's attribute: bits, smallest, whether rounding is stochastic, seed. Throws Error if they are
  // not such values.
  static Precision from(std::span<const std::int64_t> values);

  Tensor tensor(ElementType type, std::size_t count, const void* in, void* out) const;
};

}  // namespace jaxina
