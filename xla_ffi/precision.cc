#include "xla_ffi/precision.h"

#include "xla_ffi/misfit.h"

namespace jaxina {

Precision Precision::from(std::span<const std::int64_t> values) {
  const bool sound = values.size() == 4 && (values[0] == 8 || values[0] == 16 || values[0] == 32 || values[0] == 64) &&
                     values[1] >= 0 && (values[2] == 0 || values[2] == 1);
  if (!sound) {
    throw Error(misfit("malformed precision of a sum"));
  }
  return {values[0], values[1], {values[2] == 1, static_cast<std::uint64_t>(values[3])}};
}

Tensor Precision::tensor(ElementType type, std::size_t count, const void* in, void* out) const {
  Tensor tensor{.type = numerics::in_bits(type, bits == 64 ? 64 : 32), .count = count, .in = in, .out = out};
  const bool narrow = bits < 32 && numerics::may_be_narrow(type) && count >= static_cast<std::size_t>(smallest);
  if (narrow) tensor.word = bits == 8 ? numerics::WireWord::kInt8 : numerics::WireWord::kInt16;
  return tensor;
}

}  // namespace jaxina
