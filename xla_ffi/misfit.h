// misfit(): the status of a call that jaxina's own Python part cannot have meant.
#pragma once

#include <string>
#include <string_view>

#include "rdma_engine/errors.h"

namespace jaxina {

// `what`: what is wrong with the call.
inline Status misfit(std::string_view what) {
  return {ErrorCode::kInvalidArgument,
          std::string(what) + "; jaxina's Python and native parts do not fit together: reinstall jaxina"};
}

}  // namespace jaxina
