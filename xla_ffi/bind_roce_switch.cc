// Binds RoceSwitch, the software switch that answers RDMA writes.
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <utility>

#include "rdma_engine/switch/roce_switch.h"
#include "xla_ffi/bindings.h"
#include "xla_ffi/connection_end.h"
#include "xla_ffi/switch_counters.h"

namespace jaxina {

namespace nb = nanobind;
using namespace nb::literals;

void bind_roce_switch(nb::module_& m) {
  using Release = nb::call_guard<nb::gil_scoped_release>;
  nb::class_<RoceSwitch> bound(m, "RoceSwitch", "An aggregator that answers RoCEv2 writes, on a thread of its own.");
  bound
      .def(
          "__init__",
          [](RoceSwitch* self, std::string address, std::uint16_t port, bool check_icrc, double loss,
             std::uint64_t loss_seed) {
            RoceSwitchConfig config;
            config.address = std::move(address);
            config.port = port;
            config.mtu = 4096;
            config.icrc = check_icrc ? roce::IcrcPolicy::kCheck : roce::IcrcPolicy::kIgnore;
            config.loss = loss;
            config.loss_seed = loss_seed;
            new (self) RoceSwitch(config);
          },
          "address"_a, "port"_a, "check_icrc"_a, "loss"_a, "loss_seed"_a, Release(),
          "address: one IPv4 address of this host. port: 4791 for workers with a NIC; 0 lets the system choose. Raises "
          "InvalidArgument if the port is in use.")
      .def_prop_ro("port", &RoceSwitch::port)
      .def(
          "connect",
          [](RoceSwitch& self, std::uint32_t job, std::uint32_t worker, const ConnectionFields& end) {
            return fields_of(self.connect(job, worker, connection_of(end)));
          },
          "job"_a, "worker"_a, "end"_a, Release(),
          "end: (address, udp_port, mtu, qpns, psn, rkey, memory) of the worker; returns the switch's. Raises "
          "InvalidArgument or JobRejected.");
  bind_jobs(bound);
}

}  // namespace jaxina
