// Binds the FFI handlers for GPUs, and what `jaxina info` and the benchmarks ask about GPUs.
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
      "The FFI handlers for CUDA.\n\n"
      "Returns:\n"
      "  A dict from a custom call's name to what jax.ffi.register_ffi_target takes: a capsule, or a dict of capsules "
      "by stage. Empty if jaxina-cuda13 is not installed.");
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
      "The types of the handlers' state. They must be registered before gpu_handlers().\n\n"
      "Returns:\n"
      "  A dict from a type's name to what jax.ffi.register_ffi_type takes. Empty if jaxina was built without CUDA.");
  m.def("set_gpu_ids", &set_gpu_ids, "id_of_ordinal"_a,
        "Tells the handlers which GPUs this process has. Must be called before a psum runs on a GPU.\n\n"
        "Args:\n"
        "  id_of_ordinal: dict from a GPU's number within the process to JAX's global device id.");
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
      "Describes this machine's GPUs, for `jaxina info`.\n\n"
      "Returns:\n"
      "  {'gpus': ..., 'toolkit': ..., 'dma_buf': ...}, all texts: the GPUs' names, the versions of the toolkit and "
      "the "
      "driver, and for each GPU whether a NIC can be given its memory.");
  m.def(
      "gpu_link",
      [](std::size_t bytes) {
        const GpuLink link = gpu_link(bytes);
        return nb::make_tuple(link.to_host, link.to_gpu);
      },
      "bytes"_a,
      "Measures copies between page-locked memory and GPU 0.\n\n"
      "Args:\n"
      "  bytes: the size of one copy.\n\n"
      "Returns:\n"
      "  (to_host, to_gpu), in bytes per second.\n\n"
      "Raises:\n"
      "  GpuError: if there is no GPU, or jaxina was built without CUDA.");
}

}  // namespace jaxina
