// Binds SoftwareSwitch, the switch that answers UDP datagrams.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <utility>

#include "rdma_engine/switch/software_switch.h"
#include "xla_ffi/bindings.h"
#include "xla_ffi/switch_counters.h"

namespace jaxina {

namespace nb = nanobind;
using namespace nb::literals;

void bind_switch(nb::module_& m) {
  using Release = nb::call_guard<nb::gil_scoped_release>;
  nb::class_<SoftwareSwitch> bound(m, "SoftwareSwitch",
                                   "An aggregator behind UDP sockets of this host. Slot i of a job is served by thread "
                                   "i % threads, which has a port "
                                   "of its own. Its threads run until stop().");
  bound
      .def(
          "__init__",
          [](SoftwareSwitch* self, std::string address, std::uint32_t threads, double loss, std::uint64_t loss_seed,
             std::vector<std::uint16_t> ports) {
            new (self) SoftwareSwitch({.address = std::move(address),
                                       .ports = std::move(ports),
                                       .threads = threads,
                                       .loss = loss,
                                       .loss_seed = loss_seed});
          },
          "address"_a, "threads"_a, "loss"_a, "loss_seed"_a, "ports"_a = std::vector<std::uint16_t>{}, Release(),
          "address: of this host, where workers send to. ports: one per thread, or [] to let the system choose. loss: "
          "share of arriving packets to drop, for experiments. Raises InvalidArgument if a port is in use.")
      .def_prop_ro("ports", &SoftwareSwitch::ports, "One data port per thread.")
      .def_prop_ro("receive_buffer_granted", &SoftwareSwitch::receive_buffer_granted,
                   "Bytes of packets that may wait unread at each port, as the system granted them.")
      .def_prop_ro("receive_buffer_requested", &SoftwareSwitch::receive_buffer_requested,
                   "Bytes that were asked for; more than the granted ones if net.core.rmem_max limits them.")
      .def("slots_that_fit", &SoftwareSwitch::slots_that_fit, "shape"_a,
           "The largest pool, up to the shape's, whose first burst fits the socket buffers that the system granted.");
  bind_jobs(bound);
}

}  // namespace jaxina
