// What jaxina can do with GPUs. The shared library of the package jaxina-cuda13 has these functions (gpu_part.h).
// jaxina._native has functions of the same names that call it. Without the package they do nothing, and gpu_facts()
// says so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "xla/ffi/api/c_api.h"

namespace jaxina {

// The FFI handlers of a psum on a GPU, as XLA's C function pointers: `jaxina_all_reduce_start` hands the operands to
// the engine, `jaxina_all_reduce_done` waits for the sum. What XLA puts between them runs while the sum is under way.
// Before a run of the program, `initialize` of the start makes a state of the type given; when XLA destroys it, at the
// run's end, that waits for sums that were started and not waited for. Null without the package.
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

// XLA tells a handler which of the process's GPUs it runs on; groups consist of JAX's global device ids.
void set_gpu_ids(std::map<int, std::int64_t> id_of_ordinal);

// What `jaxina info` prints: the GPUs, the toolkit and driver, and whether a GPU's memory can be given to a NIC.
struct GpuFacts {
  std::string gpus, toolkit, dma_buf;
};
GpuFacts gpu_facts();

// Bytes per second that copies of so many bytes reach between page-locked memory and GPU 0. Throws Error(kGpu).
struct GpuLink {
  double to_host, to_gpu;
};
GpuLink gpu_link(std::size_t bytes);

}  // namespace jaxina
