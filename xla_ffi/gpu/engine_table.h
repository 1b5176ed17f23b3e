// The engine, as the GPU's part reaches it.
#pragma once

#include "xla_ffi/gpu/gpu_part.h"

namespace jaxina {

// Given by jaxina._native when it loaded this library.
const EngineTable& engine();

}  // namespace jaxina
