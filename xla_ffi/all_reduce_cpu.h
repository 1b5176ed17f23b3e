// The FFI handler behind the custom call `jaxina_all_reduce` on CPU, as XLA's C function pointer.
#pragma once

#include "xla/ffi/api/c_api.h"

namespace jaxina {

XLA_FFI_Error* all_reduce_cpu(XLA_FFI_CallFrame* call_frame);

}  // namespace jaxina
