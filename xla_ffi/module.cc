// The entry point of the Python extension jaxina._native.
#include <nanobind/nanobind.h>

#include "xla_ffi/all_reduce_cpu.h"
#include "xla_ffi/bindings.h"
#include "xla_ffi/top_k_cpu.h"

namespace nb = nanobind;

NB_MODULE(_native, m) {
  m.doc() = "Native part of jaxina: XLA FFI handlers, the aggregation engine and the codec.";
  jaxina::bind_errors(m);
  jaxina::bind_all_reduce(m);
  jaxina::bind_engine(m);
  jaxina::bind_frame_switch(m);
  jaxina::bind_gpu(m);
  jaxina::bind_group(m);
  jaxina::bind_host(m);
  jaxina::bind_mpi(m);
  jaxina::bind_numerics(m);
  jaxina::bind_roce_switch(m);
  jaxina::bind_shape(m);
  jaxina::bind_sim(m);
  jaxina::bind_switch(m);
  m.def(
      "all_reduce_cpu",
      [] { return nb::capsule(reinterpret_cast<void*>(&jaxina::all_reduce_cpu), "xla._CUSTOM_CALL_TARGET"); },
      "The handler of the custom call `jaxina_all_reduce` on CPU: a capsule for jax.ffi.register_ffi_target.");
  m.def(
      "team_all_reduce_cpu",
      [] { return nb::capsule(reinterpret_cast<void*>(&jaxina::team_all_reduce_cpu), "xla._CUSTOM_CALL_TARGET"); },
      "The same of the custom call `jaxina_team_all_reduce`.");
  m.def(
      "top_k_cpu", [] { return nb::capsule(reinterpret_cast<void*>(&jaxina::top_k_cpu), "xla._CUSTOM_CALL_TARGET"); },
      "The same of the custom call `jaxina_top_k`.");
}
