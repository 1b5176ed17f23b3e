// What all kernels' loops share. Internal linkage, for the reason that kernels.h gives.
#pragma once

#include <cstddef>

#include "rdma_engine/numerics/scalar_vector.h"

namespace jaxina::numerics {
namespace {

constexpr bool kHostIsLittleEndian = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;

// Calls body(vector type, first element) over [0, count): first for whole vectors, then for single elements.
template <class Wide, class Body>
inline void for_each_vector(std::size_t count, Body body) {
  const std::size_t whole = count - count % Wide::kWidth;
  for (std::size_t i = 0; i < whole; i += Wide::kWidth) body(Wide{}, i);
  for (std::size_t i = whole; i < count; ++i) body(ScalarVector{}, i);
}

}  // namespace
}  // namespace jaxina::numerics
