// Converts jaxina's errors to XLA's. The text keeps jaxina's own code, from which jaxina/errors.py finds the class.
#pragma once

#include "rdma_engine/errors.h"
#include "xla/ffi/api/ffi.h"

namespace jaxina {

xla::ffi::ErrorCode to_xla(ErrorCode code);
xla::ffi::Error to_xla(const Status& status);

}  // namespace jaxina
