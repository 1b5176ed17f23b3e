#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <utility>

#include "rdma_engine/switch/software_switch.h"
#include "xla_ffi/bindings.h"
#include "xla_ffi/switch_counters.h"

namespace jaxina {

namespace nb = nanobind;
using namespace nb::literals;

namespace {

nb::dict all_of(const SwitchStatistics& statistics) {
  nb::dict jobs;
  for (const auto& [job, counters] : statistics.jobs) jobs[nb::int_(job)] = as_dict(counters.counters, counters.rejects);
  nb::dict d;
  d["jobs"] = std::move(jobs);
  d["rejected"] = as_dict(statistics.rejects);
  d["packets_received"] = statistics.packets_received;
  d["packets_dropped"] = statistics.packets_dropped;
  d["packets_unsent"] = statistics.packets_unsent;
  return d;
}

}  // namespace

void bind_switch(nb::module_& m) {
  using Release = nb::call_guard<nb::gil_scoped_release>;
  nb::class_<SoftwareSwitch>(
      m, "SoftwareSwitch",
      "An aggregator behind UDP sockets of this host. Slot i of a job is served by thread i % threads, which has a port "
      "of its own. Its threads run until stop().")
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
      .def(
          "add_job",
          [](SoftwareSwitch& self, std::uint32_t job, std::uint64_t secret, std::uint32_t workers, std::uint32_t slots,
             std::uint32_t block_size, std::uint32_t blocks_per_chunk) {
            self.add_job({.job = job,
                          .secret = secret,
                          .workers = workers,
                          .slots = slots,
                          .block_size = block_size,
                          .blocks_per_chunk = blocks_per_chunk});
          },
          "job"_a, "secret"_a, "workers"_a, "slots"_a, "block_size"_a, "blocks_per_chunk"_a, Release(),
          "Raises JobRejected if the id is in use, TooManyWorkers or InvalidArgument.")
      .def("remove_job", &SoftwareSwitch::remove_job, "job"_a, Release(),
           "Frees the job's slots; a job that does not exist is no error.")
      .def(
          "abort_job",
          [](SoftwareSwitch& self, std::uint32_t job, const std::string& code, const std::string& message) {
            self.abort_job(job, Status(error_code_named(code), message));
          },
          "job"_a, "code"_a, "message"_a, Release(),
          "Ends the job on all its workers with this error; at most 512 bytes of the message are carried.")
      .def(
          "statistics",
          [](SoftwareSwitch& self) {
            SwitchStatistics statistics;
            {
              nb::gil_scoped_release release;
              statistics = self.statistics();
            }
            return all_of(statistics);
          },
          "{'jobs': {id: {'updates', 'results', 'duplicates', 'packets_sent', 'bytes_received', 'bytes_sent', "
          "'rejected': {kind: count}}}, 'rejected': {kind: count}, 'packets_received', 'packets_dropped', "
          "'packets_unsent'}; bytes are UDP payload, the outer 'rejected' counts packets of none of the jobs.")
      .def("missing", &SoftwareSwitch::missing, "job"_a, Release(),
           "The workers that some incomplete pass of the job waits for, ascending.")
      .def("slots_that_fit", &SoftwareSwitch::slots_that_fit, "workers"_a, "block_size"_a, "blocks_per_chunk"_a,
           "The largest pool whose first burst fits the socket buffers that the system granted.")
      .def("stop", &SoftwareSwitch::stop, Release(), "Closes the ports and ends the threads.");
}

}  // namespace jaxina
