#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>

#include "xla_ffi/bindings.h"
#include "xla_ffi/gpu/gpu.h"

namespace jaxina {

namespace nb = nanobind;
using namespace nb::literals;

namespace {

nb::capsule target(XLA_FFI_Handler* handler) {
  return nb::capsule(reinterpret_cast<void*>(handler), "xla._CUSTOM_CALL_TARGET");
}

}  // namespace

void bind_gpu(nb::module_& m) {
  m.def("load_gpu_part", &load_gpu_part, "library"_a,
        "Loads the shared library of jaxina-cuda13; what stands below then uses it. Raises GpuError.");
  m.def(
      "gpu_handlers",
      [] {
        const GpuHandlers handlers = gpu_handlers();
        nb::dict named;
        if (handlers.start != nullptr) {
          nb::dict start;
          start["initialize"] = target(handlers.initialize);
          start["execute"] = target(handlers.start);
          named["jaxina_all_reduce_start"] = start;
          named["jaxina_all_reduce_done"] = target(handlers.done);
        }
        return named;
      },
      "Custom call -> its handler on CUDA, for jax.ffi.register_ffi_target; empty without jaxina-cuda13.");
  m.def(
      "gpu_types",
      [] {
        const GpuHandlers handlers = gpu_handlers();
        nb::dict named;
        if (handlers.state != nullptr) {
          nb::dict running;
          running["type_id"] = nb::capsule(handlers.state);
          running["type_info"] = nb::capsule(handlers.state_info);
          named["jaxina_running"] = running;
        }
        return named;
      },
      "Type of the handlers' state -> its registration, for jax.ffi.register_ffi_type before that of the handlers.");
  m.def("set_gpu_ids", &set_gpu_ids, "id_of_ordinal"_a,
        "This process's GPUs: their numbers within the process -> JAX's global device ids.");
  m.def(
      "gpu_facts",
      [] {
        const GpuFacts facts = gpu_facts();
        nb::dict d;
        d["gpus"] = facts.gpus.c_str();
        d["toolkit"] = facts.toolkit.c_str();
        d["dma_buf"] = facts.dma_buf.c_str();
        return d;
      },
      "{'gpus': names, 'toolkit': versions, 'dma_buf': of each GPU, whether a NIC can be given its memory}, in words.");
  m.def(
      "gpu_link",
      [](std::size_t bytes) {
        const GpuLink link = gpu_link(bytes);
        return nb::make_tuple(link.to_host, link.to_gpu);
      },
      "bytes"_a, "(to_host, to_gpu): bytes per second between page-locked memory and GPU 0. Raises GpuError.");
}

}  // namespace jaxina
