// Converts a switch's counters to Python dicts, and binds the methods that all switches have.
#pragma once

#include <nanobind/nanobind.h>

#include <string_view>

#include "rdma_engine/switch/switch_counters.h"

namespace jaxina {

inline void put(nanobind::dict& d, Counter counter, std::uint64_t value) {
  const std::string_view name = to_string(counter);
  d[nanobind::str(name.data(), name.size())] = value;
}

// Only the counters of rejected packets, without those that are zero.
inline nanobind::dict rejected(const Counters& counters) {
  nanobind::dict d;
  counters.for_each([&](Counter counter, std::uint64_t value) {
    if (is_reject(counter) && value > 0) put(d, counter, value);
  });
  return d;
}

inline nanobind::dict as_dict(const SwitchCounters& counters) {
  nanobind::dict jobs;
  for (const auto& [id, of_job] : counters.jobs) {
    nanobind::dict job;
    for (const Counter counter : {Counter::kUpdates, Counter::kResults, Counter::kDuplicates, Counter::kPacketsSent,
                                  Counter::kBytesReceived, Counter::kBytesSent}) {
      put(job, counter, of_job[counter]);
    }
    job["rejected"] = rejected(of_job);
    jobs[nanobind::int_(id)] = std::move(job);
  }
  nanobind::dict d;
  d["jobs"] = std::move(jobs);
  d["rejected"] = rejected(counters.strangers);
  for (const Counter counter : {Counter::kPacketsReceived, Counter::kPacketsDropped, Counter::kPacketsUnsent,
                                Counter::kPacketsUnanswerable, Counter::kSocketOverflows}) {
    put(d, counter, counters.sockets[counter]);
  }
  return d;
}

// Binds the methods that both kinds of switch have: adding, removing and aborting jobs, and statistics.
template <typename Switch>
void bind_jobs(nanobind::class_<Switch>& bound) {
  namespace nb = nanobind;
  using namespace nb::literals;
  using Release = nb::call_guard<nb::gil_scoped_release>;
  bound
      .def(
          "add_job",
          [](Switch& self, std::uint32_t job, std::uint64_t secret, const JobShape& shape) {
            self.add_job({.job = job, .secret = secret, .shape = shape});
          },
          "job"_a, "secret"_a, "shape"_a, Release(),
          "Raises JobRejected if the id is in use, or there is no memory left for its pool.")
      .def("remove_job", &Switch::remove_job, "job"_a, Release(),
           "Frees the job's slots; a job that does not exist is no error.")
      .def(
          "abort_job",
          [](Switch& self, std::uint32_t job, const std::string& code, const std::string& message) {
            self.abort_job(job, Status(error_code_named(code), message));
          },
          "job"_a, "code"_a, "message"_a, Release(),
          "Ends the job on all its workers with this error; at most 512 bytes of the message are carried.")
      .def(
          "statistics",
          [](Switch& self) {
            SwitchCounters counters;
            {
              nb::gil_scoped_release release;
              counters = self.statistics();
            }
            return as_dict(counters);
          },
          "{'jobs': {id: {'updates', 'results', 'duplicates', 'packets_sent', 'bytes_received', 'bytes_sent', "
          "'rejected': {kind: count}}}, 'rejected': {kind: count}, 'packets_received', 'packets_dropped', "
          "'packets_unsent', 'packets_unanswerable', 'socket_overflows'}; bytes are those of datagrams or messages, "
          "the outer "
          "'rejected' counts packets of none of the jobs, 'socket_overflows' what the kernel dropped at a full buffer.")
      .def("missing", &Switch::missing, "job"_a, Release(),
           "The workers that some incomplete pass of the job waits for, ascending.")
      .def("stop", &Switch::stop, Release(), "Closes the ports and ends the threads.");
}

}  // namespace jaxina
