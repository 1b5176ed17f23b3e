// The FFI handler of the custom call `jaxina_all_reduce` on CPU, with the C signature that XLA registers.
#pragma once

#include "xla/ffi/api/c_api.h"

namespace jaxina {

XLA_FFI_Error* all_reduce_cpu(XLA_FFI_CallFrame* call_frame);

}  // namespace jaxina
