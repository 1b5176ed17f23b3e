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
    for (const Counter counter :
         {Counter::kUpdates, Counter::kResults, Counter::kDuplicates, Counter::kPacketsSent, Counter::kBytesReceived,
          Counter::kBytesSent, Counter::kBytesOf32Bits, Counter::kBytesOf16Bits, Counter::kBytesOf8Bits,
          Counter::kClaims, Counter::kJoins, Counter::kCombined, Counter::kAbsorbed, Counter::kCollisions,
          Counter::kPassedOn, Counter::kExpired, Counter::kReleased, Counter::kReplies}) {
      put(job, counter, of_job[counter]);
    }
    job["rejected"] = rejected(of_job);
    jobs[nanobind::int_(id)] = std::move(job);
  }
  nanobind::dict d;
  d["jobs"] = std::move(jobs);
  d["rejected"] = rejected(counters.without_job);
  d["entries"] = counters.entries;
  d["entries_held"] = counters.entries_held;
  for (const Counter counter : {Counter::kPacketsReceived, Counter::kPacketsDropped, Counter::kPacketsUnsent,
                                Counter::kPacketsUnanswerable, Counter::kSocketOverflows}) {
    put(d, counter, counters.sockets[counter]);
  }
  return d;
}

// Binds the methods that both kinds of switch have: removing and aborting jobs, and statistics.
template <typename Switch>
void bind_jobs(nanobind::class_<Switch>& bound) {
  namespace nb = nanobind;
  using namespace nb::literals;
  using Release = nb::call_guard<nb::gil_scoped_release>;
  bound
      .def("remove_job", &Switch::remove_job, "job"_a, Release(),
           "Removes a job and frees its slots. Does nothing if there is no such job.")
      .def(
          "abort_job",
          [](Switch& self, std::uint32_t job, const std::string& code, const std::string& message) {
            self.abort_job(job, Status(error_code_named(code), message));
          },
          "job"_a, "code"_a, "message"_a, Release(),
          "Ends a job on all its workers with an error.\n\n"
          "Args:\n"
          "  job: the job's id.\n"
          "  code: the error's code, for example \"WORKER_LOST\" (see jaxina.errors).\n"
          "  message: the error's message; only its first 512 bytes reach the workers.\n\n"
          "Raises:\n"
          "  InvalidArgumentError: if there is no such code.")
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
          "The switch's counters so far.\n\n"
          "Returns:\n"
          "  A dict. 'jobs' maps each job's id to a dict with 'updates', 'results', 'duplicates', 'packets_sent', "
          "'bytes_received', 'bytes_sent', 'bytes_of_32_bits', 'bytes_of_16_bits', 'bytes_of_8_bits' (of the words "
          "received in that width) and 'rejected'; the other bytes are those of datagrams or messages. For jobs that are "
          "combined it has 'claims', 'joins', 'combined', 'absorbed', 'collisions', 'passed_on', 'expired', 'released' "
          "and 'replies' too. 'entries' and 'entries_held' are those of the table that combined jobs share. The outer "
          "'rejected' "
          "counts packets that belong to none of the jobs; both map a reason to a count. The other keys are "
          "'packets_received', 'packets_dropped' (by `loss`), 'packets_unsent' (the network did not take them), "
          "'packets_unanswerable' (their sender's address cannot be answered) and 'socket_overflows' (the kernel "
          "dropped "
          "them because a receive buffer was full).")
      .def("missing", &Switch::missing, "job"_a, Release(),
           "Returns the indices of the workers that some incomplete pass of the job waits for, ascending.")
      .def("stop", &Switch::stop, Release(), "Closes the ports and ends the threads.");
}

}  // namespace jaxina
