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
nb::callable* kept_forever(nb::callable& callable) { return new nb::callable(callable); }

template <typename Result, typename... Arguments>
Result call_python(const nb::callable& callable, Arguments... arguments) {
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
      [](int rank, int size, std::string host, std::vector<std::uint16_t> ports, double timeout, nb::callable devices,
         nb::callable endpoints, nb::callable ended) {
        mpi::World world;
        world.rank = rank;
        world.size = size;
        world.host = std::move(host);
        world.ports = std::move(ports);
        world.timeout = static_cast<Nanoseconds>(timeout * 1e9);
        world.devices = [call = kept_forever(devices)] { return second_stream(call_python<Group>(*call)); };
        world.endpoints = [call = kept_forever(endpoints)](const mpi::Endpoint& own) {
          std::vector<mpi::Endpoint> all;
          for (auto& [its_host, port, secret] :
               call_python<std::vector<std::tuple<std::string, std::uint16_t, std::uint64_t>>>(*call, own.port,
                                                                                               own.secret)) {
            all.push_back({std::move(its_host), port, secret});
          }
          return all;
        };
        world.ended = [call = kept_forever(ended)](int other) { return call_python<bool>(*call, other); };
        nb::gil_scoped_release
            released;  // set_world() joins the previous world's thread, which may be waiting for the GIL
        mpi::set_world(std::move(world));
      },
      "rank"_a, "size"_a, "host"_a, "ports"_a, "timeout_s"_a, "devices"_a, "endpoints"_a, "ended"_a,
      "Tells the MPI library of XLA's collectives about the job. Must be called before XLA uses it. The callables are "
      "kept until the process ends, and may be called on any thread.\n\n"
      "Args:\n"
      "  rank: this process's rank.\n"
      "  size: the number of processes.\n"
      "  host: this process's numeric IP address, at which it listens for messages.\n"
      "  ports: at the first of these at which nobody else listens; [] lets the system choose.\n"
      "  timeout_s: how long one message may take, in seconds.\n"
      "  devices: devices() -> list[int], the global id of each process's one device, by rank. Called when the ids are "
      "first needed.\n"
      "  endpoints: endpoints(port, secret) -> list[tuple[str, int, int]]. It publishes where this process takes "
      "messages, and returns (host, port, secret) of all processes, by rank.\n"
      "  ended: ended(rank) -> bool, whether a process is known to have ended.");
  m.def(
      "begin_mpi_program",
      [](std::uint64_t identity, std::vector<int> processes, bool carries_sums, std::vector<std::uint64_t> moved,
         const std::vector<std::int64_t>& precision) {
        mpi::running_program().begin(identity, std::move(processes), carries_sums, std::move(moved),
                                     Precision::from(precision));
      },
      "identity"_a, "processes"_a, "carries_sums"_a, "moved"_a, "precision"_a,
      "Begins a run of a program whose collectives XLA makes through MPI. A process may have only one such run at a "
      "time; end_mpi_program() ends it.\n\n"
      "Args:\n"
      "  identity: 64 bits, equal in all processes that run the same program.\n"
      "  processes: the ranks of these processes, ascending.\n"
      "  carries_sums: whether the program's sums go to the aggregator.\n"
      "  moved: numbers of elements. Sums of so many only move data, so the processes make them in floats.\n"
      "  precision: bits, smallest, whether rounding is stochastic, and seed: see jaxina.collectives.");
  m.def("end_mpi_program", &mpi::end_program, "compare"_a, "completed"_a, nb::call_guard<nb::gil_scoped_release>(),
        "Ends the run that begin_mpi_program() began.\n\n"
        "Args:\n"
        "  compare: whether to wait for all processes of a completed run and to compare how many collective calls they "
        "have made.\n"
        "  completed: whether the run has computed its results. If not, the other processes are told, and their "
        "waiting for this one ends with an error. So does this one's for them, in what XLA may still be doing.\n\n"
        "Raises:\n"
        "  MismatchError: if the processes have made different numbers of collective calls.\n"
        "  JaxinaError: if the processes cannot be compared, for example WorkerLostError.");
}

}  // namespace jaxina
