// All that the Python module needs from the GPU code. The shared library of the package jaxina-cuda13 has these
// functions (gpu_part.h). jaxina._native has functions of the same names that call it. Without the package they do
// nothing, and gpu_facts() says so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "xla/ffi/api/c_api.h"

namespace jaxina {

// The FFI handlers of a psum on a GPU, as XLA's C function pointers; all null if jaxina-cuda13 is not installed.
//
// `jaxina_all_reduce_start` hands the operands to the engine, and `jaxina_all_reduce_done` waits for the sum. What XLA
// schedules between the two runs while the sum is under way.
//
// `initialize` belongs to the start call: before each run of the program it makes an object of the type `state`. XLA
// destroys the object at the run's end. Its destructor waits for sums that were started but never finished, so that no
// sum uses buffers that XLA frees.
struct GpuHandlers {
  XLA_FFI_Handler* initialize = nullptr;
  XLA_FFI_Handler* start = nullptr;
  XLA_FFI_Handler* done = nullptr;
  XLA_FFI_TypeId* state = nullptr;
  const XLA_FFI_TypeInfo* state_info = nullptr;
};
GpuHandlers gpu_handlers();

// In jaxina._native alone: loads the shared library. Throws Error(kGpu).
void load_gpu_part(const std::string& library);

// Sets JAX's global device id for each GPU of this process. XLA tells a handler only the GPU's number within the
// process, but groups consist of global ids.
void set_gpu_ids(std::map<int, std::int64_t> id_of_ordinal);

// What `jaxina info` prints: the GPUs, the toolkit and driver, and whether a GPU's memory can be given to a NIC.
struct GpuFacts {
  std::string gpus, toolkit, dma_buf;
};
GpuFacts gpu_facts();

// Measures copies of `bytes` bytes between page-locked memory and GPU 0, in bytes per second. Throws Error(kGpu).
struct GpuLink {
  double to_host, to_gpu;
};
GpuLink gpu_link(std::size_t bytes);

}  // namespace jaxina
