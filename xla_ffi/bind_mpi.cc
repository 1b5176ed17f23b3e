#include <nanobind/stl/vector.h>

#include <memory>
#include <utility>

#include "xla_ffi/bindings.h"
#include "xla_ffi/mpi/communicator.h"

namespace jaxina {

namespace nb = nanobind;
using namespace nb::literals;

void bind_mpi(nb::module_& m) {
  m.def(
      "set_mpi_world",
      [](int rank, int size, nb::callable devices) {
        // Lives as long as the process: XLA may ask until its end.
        auto* held = new nb::callable(std::move(devices));
        mpi::set_world({rank, size, [held] {
                          nb::gil_scoped_acquire gil;
                          try {
                            return nb::cast<Group>((*held)());
                          } catch (const nb::python_error& error) {
                            throw to_native(error);
                          }
                        }});
      },
      "rank"_a, "size"_a, "devices"_a,
      "What XLA's MPI collectives learn of the job, should they be in use. devices() -> list[int]: the global id of every "
      "process's one device, by rank; called when they are first used.");
}

}  // namespace jaxina
