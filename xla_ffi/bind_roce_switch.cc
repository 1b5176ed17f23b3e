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

namespace {

nb::dict rejected_packets(const RoceSwitchStatistics& statistics) {
  nb::dict d;
  const auto put = [&](const char* name, std::uint64_t count) {
    if (count > 0) d[name] = count;
  };
  put("rdma_unknown_queue_pair", statistics.roce.unknown_queue_pair);
  put("rdma_out_of_sequence", statistics.roce.out_of_sequence);
  put("rdma_bad_length", statistics.roce.bad_length);
  put("rdma_no_access", statistics.roce.no_access);
  put("rdma_malformed", statistics.packets.malformed);
  put("rdma_wrong_icrc", statistics.packets.wrong_icrc);
  return d;
}

}  // namespace

void bind_roce_switch(nb::module_& m) {
  using Release = nb::call_guard<nb::gil_scoped_release>;
  nb::class_<RoceSwitch>(m, "RoceSwitch", "An aggregator that answers RoCEv2 writes, on a thread of its own.")
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
          "add_job",
          [](RoceSwitch& self, std::uint32_t job, std::uint64_t secret, std::uint32_t workers, std::uint32_t slots,
             std::uint32_t block_size, std::uint32_t blocks_per_chunk) {
            self.add_job({.job = job,
                          .secret = secret,
                          .workers = workers,
                          .slots = slots,
                          .block_size = block_size,
                          .blocks_per_chunk = blocks_per_chunk});
          },
          "job"_a, "secret"_a, "workers"_a, "slots"_a, "block_size"_a, "blocks_per_chunk"_a, Release())
      .def("remove_job", &RoceSwitch::remove_job, "job"_a, Release())
      .def(
          "abort_job",
          [](RoceSwitch& self, std::uint32_t job, const std::string& code, const std::string& message) {
            self.abort_job(job, Status(error_code_named(code), message));
          },
          "job"_a, "code"_a, "message"_a, Release())
      .def(
          "connect",
          [](RoceSwitch& self, std::uint32_t job, std::uint16_t worker, const ConnectionFields& end) {
            return fields_of(self.connect(job, worker, connection_of(end)));
          },
          "job"_a, "worker"_a, "end"_a, Release(),
          "end: (address, udp_port, mtu, qpns, psn, rkey, memory) of the worker; returns the switch's. Raises "
          "InvalidArgument or JobRejected.")
      .def(
          "statistics",
          [](RoceSwitch& self, std::uint32_t job) {
            RoceSwitchStatistics statistics;
            {
              nb::gil_scoped_release release;
              statistics = self.statistics(job);
            }
            return as_dict(statistics.job, statistics.rejects);
          },
          "job"_a, "The job's counters, by the names of SoftwareSwitch.statistics; bytes are those of the udp transport's packets.")
      .def(
          "rejected",
          [](RoceSwitch& self) {
            RoceSwitchStatistics statistics;
            {
              nb::gil_scoped_release release;
              statistics = self.statistics(0);
            }
            return rejected_packets(statistics);
          },
          "Packets of all jobs that changed nothing, by kind.")
      .def("missing", &RoceSwitch::missing, "job"_a, Release());
}

}  // namespace jaxina
