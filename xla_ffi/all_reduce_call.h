// Turns the arguments of a `jaxina_all_reduce` handler into a call of the engine. CPU and GPU handlers share this.
#pragma once

#include "rdma_engine/engine/engine.h"
#include "xla/ffi/api/ffi.h"
#include "xla_ffi/precision.h"

namespace jaxina {

// The attributes of the custom call.
struct AllReduceAttributes {
  xla::ffi::Span<const std::int64_t> groups;  // [number of groups x group_size] global device ids; short rows end in -1
  std::int64_t group_size;
  std::int64_t identity;                         // names the call, see jaxina/_module.py
  xla::ffi::Span<const std::int64_t> precision;  // see Precision::from
};

struct AllReduceCall {
  Group group;  // the devices that sum together; possibly the calling device alone
  Collective collective;
};

// Returns the call as `device` (a global id) runs it. Operand 0 and result 0 are the ordering token, not tensors.
// Throws Error if the call is malformed, a type is not carried, or no group holds the device.
AllReduceCall all_reduce_call(std::int64_t device, const AllReduceAttributes& attributes,
                              const xla::ffi::RemainingArgs& args, xla::ffi::RemainingRets& results);

// The tensor's size in bytes.
std::size_t size_of(const Tensor& tensor);

}  // namespace jaxina
