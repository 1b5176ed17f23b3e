// Binds FrameSwitch, the transparent switch between network interfaces.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rdma_engine/switch/frame_switch.h"
#include "xla_ffi/bindings.h"
#include "xla_ffi/connection_end.h"
#include "xla_ffi/switch_counters.h"

namespace jaxina {

namespace nb = nanobind;
using namespace nb::literals;

namespace {

std::vector<roce::ConnectionEnd> ends_of(const std::vector<ConnectionFields>& fields) {
  std::vector<roce::ConnectionEnd> ends;
  for (const ConnectionFields& one : fields) ends.push_back(connection_of(one));
  return ends;
}

}  // namespace

void bind_frame_switch(nb::module_& m) {
  using Release = nb::call_guard<nb::gil_scoped_release>;
  nb::class_<FrameSwitch>(
      m, "FrameSwitch",
      "A switch between network interfaces of this host. It passes frames as an Ethernet switch does, "
      "and adds what the rings' workers write to each other. It runs on one thread of its own until "
      "stop(). Methods raise SystemCallError if the thread does not answer within 5 seconds, and "
      "ShutDownError after stop().")
      .def(
          "__init__",
          [](FrameSwitch* self, const std::vector<std::string>& interfaces) { new (self) FrameSwitch(interfaces); },
          "interfaces"_a, Release(),
          "Args:\n"
          "  interfaces: the names of two network interfaces or more.\n\n"
          "Raises:\n"
          "  InvalidArgumentError: if there is no such interface, or this process may not use it.\n"
          "  SystemCallError: if the system has no thread left, or refuses something else.")
      .def(
          "add_ring",
          [](FrameSwitch& self, std::uint32_t job, const JobShape& shape, const std::vector<ConnectionFields>& fields,
             std::vector<std::uint32_t> racks, std::optional<std::uint32_t> rack) {
            self.add_ring(job, shape, ends_of(fields), {std::move(racks), rack});
          },
          "job"_a, "shape"_a, "ends"_a, "racks"_a = std::vector<std::uint32_t>{}, "rack"_a = nb::none(), Release(),
          "From now on adds what the workers of a ring write to each other.\n\n"
          "Args:\n"
          "  job: the job's id.\n"
          "  shape: the job's shape.\n"
          "  ends: the workers' ends, (address, udp_port, mtu, qpns, psn, rkey, memory), as "
          "jaxina.control.data_plane.QueuePairs has them: numeric addresses, one MTU, and two queue pairs each, the one "
          "that sends and the one that receives.\n"
          "  racks: each worker's rack, by number, if racks have switches of their own.\n"
          "  rack: the rack whose switch this is. None: it is the one above them. If all workers are in one rack, its "
          "switch adds alone, and the one above must not be told.\n\n"
          "Raises:\n"
          "  InvalidArgumentError: if there can be no such ring.\n"
          "  JobRejectedError: if there is such a job or such a connection, or if memory is short.")
      .def_static(
          "ring_bytes",
          [](const JobShape& shape, const std::vector<ConnectionFields>& fields, std::vector<std::uint32_t> racks,
             std::optional<std::uint32_t> rack) {
            return FrameSwitch::ring_bytes(shape, ends_of(fields), {std::move(racks), rack});
          },
          "shape"_a, "ends"_a, "racks"_a = std::vector<std::uint32_t>{}, "rack"_a = nb::none(),
          "The bytes of memory that a switch needs for such a ring. The arguments are those of `add_ring`.\n\n"
          "Raises:\n"
          "  InvalidArgumentError: if there can be no such ring.")
      .def("remove_ring", &FrameSwitch::remove_ring, "job"_a, Release(),
           "From now on passes a ring's packets as they are. Does nothing if there is no such job.")
      .def(
          "statistics",
          [](FrameSwitch& self) {
            SwitchCounters counters;
            {
              nb::gil_scoped_release release;
              counters = self.statistics();
            }
            return as_dict(counters);
          },
          "The switch's counters so far, as RoceSwitch.statistics() has them.")
      .def("stop", &FrameSwitch::stop, Release(), "Ends the thread. From now on no frame passes.");
}

}  // namespace jaxina
