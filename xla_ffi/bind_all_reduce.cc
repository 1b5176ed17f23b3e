// Binds jaxina._native.all_reduce: one sum by the engine without JAX, for tests of failures.
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <future>
#include <memory>

#include "rdma_engine/engine/engine.h"
#include "xla_ffi/bindings.h"

namespace jaxina {

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using Input = nb::ndarray<const float, nb::numpy, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Output = nb::ndarray<float, nb::numpy, nb::ndim<1>>;

Output all_reduce(const Group& group, std::int64_t device, const Input& values) {
  auto sums = std::make_unique<float[]>(std::max<std::size_t>(values.size(), 1));
  Status status;
  {
    nb::gil_scoped_release release;
    std::promise<Status> ended;
    Collective collective{{{ElementType::kFloat32, values.size(), values.data(), sums.get()}}};
    Engine::instance().submit(group, device, std::move(collective), [&](Status s) { ended.set_value(std::move(s)); });
    status = ended.get_future().get();  // the collective's timeout bounds the wait
  }
  if (!status.ok()) throw Error(status);
  float* raw = sums.get();
  const nb::capsule owner(raw, [](void* memory) noexcept { delete[] static_cast<float*>(memory); });
  sums.release();
  return Output(raw, {values.size()}, owner);
}

}  // namespace

void bind_all_reduce(nb::module_& m) {
  m.def("all_reduce", all_reduce, "group"_a, "device"_a, "values"_a,
        "Sums one array over the devices of a group, by the engine alone, without JAX. Each device of the group calls "
        "it once. Blocks until the sum is there.\n\n"
        "Args:\n"
        "  group: global ids of the devices that sum together.\n"
        "  device: the caller's id, one of `group`.\n"
        "  values: float32[N], C-contiguous, on the CPU; the same N on every device.\n\n"
        "Returns:\n"
        "  float32[N], the sum.\n\n"
        "Raises:\n"
        "  JaxinaError: the subclass that says what ended the collective.");
}

}  // namespace jaxina
