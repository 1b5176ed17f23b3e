// How jaxina's errors look to XLA. The text keeps jaxina's own code: jaxina/errors.py finds the class from it.
#pragma once

#include "rdma_engine/errors.h"
#include "xla/ffi/api/ffi.h"

namespace jaxina {

xla::ffi::ErrorCode to_xla(ErrorCode code);
xla::ffi::Error to_xla(const Status& status);

}  // namespace jaxina
