// Looks up functions of the CUDA driver at run time. jaxina is not linked against the driver, because only machines
// with a GPU have it.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

namespace jaxina {

// Returns nullptr if the driver has no function of this name.
template <typename Function>
Function* driver_function(const char* name) {
  void* address = nullptr;
  cudaDriverEntryPointQueryResult found;
  const cudaError_t error = cudaGetDriverEntryPointByVersion(name, &address, 12000, cudaEnableDefault, &found);
  return error == cudaSuccess && found == cudaDriverEntryPointSuccess ? reinterpret_cast<Function*>(address) : nullptr;
}

}  // namespace jaxina
