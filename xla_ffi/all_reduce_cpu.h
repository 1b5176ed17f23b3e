// The FFI handlers of the custom calls `jaxina_all_reduce` and `jaxina_team_all_reduce` on CPU, with the C signature
// that XLA registers. The second one sums over the processes that are the team when it runs (team.h).
#pragma once

#include "xla/ffi/api/c_api.h"

namespace jaxina {

XLA_FFI_Error* all_reduce_cpu(XLA_FFI_CallFrame* call_frame);
XLA_FFI_Error* team_all_reduce_cpu(XLA_FFI_CallFrame* call_frame);

}  // namespace jaxina
