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
  nb::class_<RoceSwitch> bound(
      m, "RoceSwitch",
      "A software switch that answers RoCEv2 writes, on one thread of its own, which runs until "
      "stop(). Methods raise SystemCallError if the thread does not answer within 5 seconds, "
      "and ShutDownError after stop().");
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
          "Args:\n"
          "  address: an IPv4 address of this host.\n"
          "  port: the UDP port. Workers with a NIC need 4791; 0 lets the system choose.\n"
          "  check_icrc: whether to drop packets whose ICRC is wrong.\n"
          "  loss: share of arriving packets to drop, for experiments, in [0, 1].\n"
          "  loss_seed: seed of these drops.\n\n"
          "Raises:\n"
          "  InvalidArgumentError: if the port is in use, or the address is not this host's.\n"
          "  SystemCallError: if the system has no thread left.")
      .def_prop_ro("port", &RoceSwitch::port, "The UDP port.")
      .def(
          "add_job",
          [](RoceSwitch& self, std::uint32_t job, std::uint64_t secret, const JobShape& shape) {
            self.add_job({.job = job, .secret = secret, .shape = shape});
          },
          "job"_a, "secret"_a, "shape"_a, Release(),
          "Adds a job.\n\n"
          "Args:\n"
          "  job: the job's id.\n"
          "  secret: the job's secret, 64 bits, which its workers' packets must carry.\n"
          "  shape: the job's shape.\n\n"
          "Raises:\n"
          "  JobRejectedError: if the id is in use, or there is no memory left for the pool.")
      .def(
          "connect",
          [](RoceSwitch& self, std::uint32_t job, std::uint32_t worker, const ConnectionFields& end) {
            return fields_of(self.connect(job, worker, connection_of(end)));
          },
          "job"_a, "worker"_a, "end"_a, Release(),
          "Connects a worker's queue pairs. A worker that connects again loses the queue pairs that it had.\n\n"
          "Args:\n"
          "  job: the job's id.\n"
          "  worker: the worker's index in the job.\n"
          "  end: the worker's end, (address, udp_port, mtu, qpns, psn, rkey, memory), as "
          "jaxina.control.data_plane.QueuePairs has it; `address` is numeric.\n\n"
          "Returns:\n"
          "  The switch's end, with the same fields.\n\n"
          "Raises:\n"
          "  InvalidArgumentError: if `end` does not fit the job.\n"
          "  JobRejectedError: if there is no such job.\n"
          "  SwitchUnreachableError: if no route leads to the worker.");
  bind_jobs(bound);
}

}  // namespace jaxina
