// The FFI handler of the custom call `jaxina_top_k` on CPU, with the C signature that XLA registers.
#pragma once

#include "xla/ffi/api/c_api.h"

namespace jaxina {

XLA_FFI_Error* top_k_cpu(XLA_FFI_CallFrame* call_frame);

}  // namespace jaxina
