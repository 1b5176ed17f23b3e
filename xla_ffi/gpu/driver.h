// Functions of the driver, found when they are needed: nothing here is linked against the driver, which only machines
// with a GPU have.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

namespace jaxina {

// Null where the driver has no such function.
template <typename Function>
Function* driver_function(const char* name) {
  void* address = nullptr;
  cudaDriverEntryPointQueryResult found;
  const cudaError_t error = cudaGetDriverEntryPointByVersion(name, &address, 12000, cudaEnableDefault, &found);
  return error == cudaSuccess && found == cudaDriverEntryPointSuccess ? reinterpret_cast<Function*>(address) : nullptr;
}

}  // namespace jaxina
