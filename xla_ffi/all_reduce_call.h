// What a `jaxina_all_reduce` custom call asks for, from the arguments of its handler on whatever platform.
#pragma once

#include "rdma_engine/engine/engine.h"
#include "xla/ffi/api/ffi.h"

namespace jaxina {

// What sums where: attribute `groups` holds [number of groups x group_size] global device ids, shorter groups padded
// with -1; `identity` names the call, see jaxina/_module.py; `bits` is how many a float of at most 32 bits has on the
// wire: 32 or 64.
struct AllReduceAttributes {
  xla::ffi::Span<const std::int64_t> groups;
  std::int64_t group_size;
  std::int64_t identity;
  std::int64_t bits;
};

struct AllReduceCall {
  Group group;  // of the device; it may be alone in it
  Collective collective;
};

// The call as `device` (a global id) runs it. Operand and result 0 are the ordering token. Throws Error.
AllReduceCall all_reduce_call(std::int64_t device, const AllReduceAttributes& attributes,
                              const xla::ffi::RemainingArgs& args, xla::ffi::RemainingRets& results);

// Bytes of the tensor.
std::size_t size_of(const Tensor& tensor);

}  // namespace jaxina
