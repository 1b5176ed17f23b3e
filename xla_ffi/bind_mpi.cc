// Binds what Python tells the MPI library of XLA's collectives (xla_ffi/mpi): the job's processes, and each program
// that runs.
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "xla_ffi/bindings.h"
#include "xla_ffi/mpi/communicator.h"
#include "xla_ffi/mpi/program_end.h"
#include "xla_ffi/mpi/running_program.h"

namespace jaxina {

namespace nb = nanobind;
using namespace nb::literals;

namespace {

// Keeps the callable until the process ends, on purpose: XLA may call into the library until then.
nb::callable* kept(nb::callable& callable) { return new nb::callable(callable); }

template <typename Result, typename... Arguments>
Result asked(const nb::callable& callable, Arguments... arguments) {
  nb::gil_scoped_acquire gil;
  try {
    return nb::cast<Result>(callable(arguments...));
  } catch (const nb::python_error& error) {
    throw to_native(error);
  }
}

}  // namespace

void bind_mpi(nb::module_& m) {
  m.def(
      "set_mpi_world",
      [](int rank, int size, std::string host, double timeout, nb::callable devices, nb::callable endpoints,
         nb::callable ended) {
        mpi::World world;
        world.rank = rank;
        world.size = size;
        world.host = std::move(host);
        world.timeout = static_cast<Nanoseconds>(timeout * 1e9);
        world.devices = [call = kept(devices)] { return second_stream(asked<Group>(*call)); };
        world.endpoints = [call = kept(endpoints)](const mpi::Endpoint& own) {
          std::vector<mpi::Endpoint> all;
          for (auto& [its_host, port, secret] :
               asked<std::vector<std::tuple<std::string, std::uint16_t, std::uint64_t>>>(*call, own.port, own.secret)) {
            all.push_back({std::move(its_host), port, secret});
          }
          return all;
        };
        world.ended = [call = kept(ended)](int other) { return asked<bool>(*call, other); };
        nb::gil_scoped_release
            released;  // set_world() joins the previous world's thread, which may be waiting for the GIL
        mpi::set_world(std::move(world));
      },
      "rank"_a, "size"_a, "host"_a, "timeout_s"_a, "devices"_a, "endpoints"_a, "ended"_a,
      "What XLA's MPI collectives learn of the job, should they be in use. host: this process's numeric address. "
      "devices() -> "
      "list[int]: the global id of every process's one device, by rank; called when they are first used. "
      "endpoints(port, "
      "secret) -> list[tuple[str, int, int]]: where every process takes messages, by rank, given where this one does. "
      "ended(rank) -> bool: whether a process is known to have ended.");
  m.def(
      "begin_mpi_program",
      [](std::uint64_t identity, std::vector<int> processes, bool carries_sums, std::int64_t bits) {
        mpi::running_program().begin(identity, std::move(processes), carries_sums, bits);
      },
      "identity"_a, "processes"_a, "carries_sums"_a, "bits"_a,
      "From here to end_mpi_program() this process runs one program whose collectives come to jaxina as to an MPI "
      "library. "
      "identity: equal in all processes that run the same program; these are `processes`, by rank. carries_sums: "
      "whether its "
      "sums go to the aggregator; bits: how many a float of at most 32 bits has there, 32 or 64.");
  m.def("end_mpi_program", &mpi::end_program, "compare"_a, "completed"_a, nb::call_guard<nb::gil_scoped_release>(),
        "Ends it. completed: its results are there. With `compare` it waits for all the processes, and raises "
        "MismatchError "
        "unless they have made as many collective calls. Without `completed` it tells the others, whose waiting ends.");
}

}  // namespace jaxina
