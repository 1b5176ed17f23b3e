// Binds SoftwareSwitch, the switch that answers UDP datagrams.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "rdma_engine/base/narrow.h"
#include "rdma_engine/net/socket_address.h"
#include "rdma_engine/switch/software_switch.h"
#include "xla_ffi/bindings.h"
#include "xla_ffi/job_key.h"
#include "xla_ffi/switch_counters.h"

namespace jaxina {

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using HostPort = std::tuple<std::string, std::uint16_t>;

std::vector<Address> resolved(const std::vector<HostPort>& given) {
  std::vector<Address> addresses;
  for (const auto& [host, port] : given) {
    addresses.push_back(net::resolve(host, port, ErrorCode::kInvalidArgument));
  }
  return addresses;
}

using Workers = std::vector<std::uint32_t>;

WorkerSet set_of(const Workers& workers, const JobShape& shape) {
  WorkerSet set{};
  for (const std::uint32_t worker : workers) {
    if (worker >= shape.workers()) {
      throw Error(ErrorCode::kInvalidArgument, "worker " + std::to_string(worker) + " is not below the job's " +
                                                   std::to_string(shape.workers()) + " workers");
    }
    insert(set, worker);
  }
  return set;
}

std::vector<WorkerSet> sets_of(const std::vector<Workers>& groups, const JobShape& shape) {
  std::vector<WorkerSet> sets;
  for (const Workers& group : groups) sets.push_back(set_of(group, shape));
  return sets;
}

// The workers whose updates a child sends, and the number of their group; without a group, it is the worker itself.
using ChildOfSwitch = std::tuple<Workers, std::optional<std::uint32_t>>;

std::vector<Child> children_of(const std::vector<ChildOfSwitch>& given, const JobShape& shape) {
  std::vector<Child> children;
  for (const auto& [workers, group] : given) {
    const std::uint32_t sender = group ? wire::kFirstGroup + *group : workers.at(0);
    children.push_back({.sender = narrow<std::uint16_t>(sender), .workers = set_of(workers, shape)});
  }
  return children;
}

}  // namespace

void bind_switch(nb::module_& m) {
  using Release = nb::call_guard<nb::gil_scoped_release>;
  nb::class_<SoftwareSwitch> bound(
      m, "SoftwareSwitch",
      "A software switch that answers UDP datagrams. Each of its threads has a port of its "
      "own, and thread i % threads serves slot i of a job. The threads run until stop(). "
      "Methods raise SystemCallError if a thread does not answer within 5 seconds, and "
      "ShutDownError after stop().");
  bound
      .def(
          "__init__",
          [](SoftwareSwitch* self, std::string address, std::uint32_t threads, double loss, std::uint64_t loss_seed,
             std::vector<std::uint16_t> ports, std::uint32_t entries, double share_sent_on, double port_rate) {
            new (self) SoftwareSwitch({.address = std::move(address),
                                       .ports = std::move(ports),
                                       .threads = threads,
                                       .loss = loss,
                                       .loss_seed = loss_seed,
                                       .entries = entries,
                                       .share_sent_on = share_sent_on,
                                       .port_rate = port_rate});
          },
          "address"_a, "threads"_a, "loss"_a, "loss_seed"_a, "ports"_a = std::vector<std::uint16_t>{}, "entries"_a = 0,
          "share_sent_on"_a = 0.0, "port_rate"_a = 0.0, Release(),
          "Args:\n"
          "  address: this host's address, to which workers send.\n"
          "  threads: how many threads serve the jobs.\n"
          "  loss: share of arriving packets to drop, for experiments, in [0, 1].\n"
          "  loss_seed: seed of these drops.\n"
          "  ports: one UDP port for each thread; [] lets the system choose.\n"
          "  entries: how many entries the table has that jobs of combine_job() share.\n"
          "  share_sent_on: share of their passes that are sent on without being combined, for experiments, in "
          "[0, 1].\n"
          "  port_rate: megabits per second of the links from here to each host, at most 1e6; 0 if that is not known. If "
          "it is known, packets of such jobs are marked while a link has a queue.\n\n"
          "Raises:\n"
          "  InvalidArgumentError: if a port is in use, the address is not this host's, or a number cannot work.\n"
          "  SystemCallError: if the system has no thread left.")
      .def_prop_ro("ports", &SoftwareSwitch::ports, "The UDP ports, one for each thread.")
      .def_prop_ro("receive_buffer_granted", &SoftwareSwitch::receive_buffer_granted,
                   "Bytes of packets that may wait unread at each port, as the system granted them.")
      .def_prop_ro("receive_buffer_requested", &SoftwareSwitch::receive_buffer_requested,
                   "Bytes that were asked for. The system grants fewer if net.core.rmem_max limits them.")
      .def(
          "add_job",
          [](SoftwareSwitch& self, std::uint32_t job, std::uint64_t secret, const JobShape& shape,
             const nb::bytes& key) {
            const JobSpec spec{.job = job, .secret = secret, .shape = shape, .key = key_of(key)};
            const nb::gil_scoped_release release;
            self.add_job(spec);
          },
          "job"_a, "secret"_a, "shape"_a, "key"_a = nb::bytes("", 0),
          "Adds a job.\n\n"
          "Args:\n"
          "  job: the job's id.\n"
          "  secret: the job's secret, 64 bits, which its workers' packets must carry.\n"
          "  shape: the job's shape.\n"
          "  key: the job's key, JOB_KEY_BYTES random bytes, if its packets are encrypted; b\"\" if they are not.\n\n"
          "Raises:\n"
          "  InvalidArgumentError: if this host cannot encrypt.\n"
          "  JobRejectedError: if the id is in use, or there is no memory left for the pool.")
      .def(
          "add_part",
          [](SoftwareSwitch& self, std::uint32_t job, std::uint64_t secret, const JobShape& shape, std::uint32_t index,
             std::uint32_t of, const std::vector<Workers>& groups, const std::vector<HostPort>& switches,
             const nb::bytes& key) {
            const JobSpec spec{.job = job, .secret = secret, .shape = shape, .key = key_of(key)};
            const nb::gil_scoped_release release;
            self.add_job(spec, {.index = index, .of = of},
                         {.groups = sets_of(groups, shape), .addresses = resolved(switches)});
          },
          "job"_a, "secret"_a, "shape"_a, "index"_a, "of"_a, "groups"_a = std::vector<Workers>{},
          "switches"_a = std::vector<HostPort>{}, "key"_a = nb::bytes("", 0),
          "Adds this switch's part of a job that several switches share: of `of` switches it is number `index`, from 0. "
          "The other arguments, and the errors, are those of add_job(). With one thread each, slot i of the job "
          "belongs to switch i % of.\n\n"
          "Args:\n"
          "  groups: the workers of each group whose updates may come as one sum, by the group's number. None is empty.\n"
          "  switches: (host, port) from which such sums come; those of slot i from switches[i % len(switches)].\n\n"
          "Raises:\n"
          "  InvalidArgumentError: if there is no such part, or a group has a worker that the job does not have.\n"
          "  JobRejectedError: as add_job().")
      .def(
          "combine_job",
          [](SoftwareSwitch& self, std::uint32_t job, std::uint64_t secret, const JobShape& shape, std::uint32_t group,
             const std::vector<ChildOfSwitch>& children, const std::vector<HostPort>& upstream, std::uint32_t ways) {
            self.combine_job({.job = job,
                              .secret = secret,
                              .shape = shape,
                              .group = group,
                              .children = children_of(children, shape),
                              .upstream = resolved(upstream),
                              .ways = ways});
          },
          "job"_a, "secret"_a, "shape"_a, "group"_a, "children"_a, "upstream"_a, "ways"_a, Release(),
          "Adds a job whose updates this switch combines on their way to the job's servers. The other arguments are "
          "those of add_job().\n\n"
          "Args:\n"
          "  group: the number of the group of all workers below this switch.\n"
          "  children: (workers, group) of each sender below this switch, at least one. With None as its group, a child "
          "is the one worker in the list; else it is a switch that combines the group.\n"
          "  upstream: (host, port) of the servers or of the switch above this one, at least one; slot i goes to "
          "upstream[i % len(upstream)].\n"
          "  ways: slots whose numbers are equal modulo this come from one address of each child. At least 1, which is "
          "right if all children are workers.\n\n"
          "Raises:\n"
          "  InvalidArgumentError: if an address is not valid, or a child has a worker that the job does not have.\n"
          "  JobRejectedError: if the id is in use, or the job's packets are too large for the entries.")
      .def("slots_that_fit", &SoftwareSwitch::slots_that_fit, "shape"_a,
           "Returns the largest number of slots, up to the shape's own, for which the first bursts of all workers fit "
           "the socket buffers that the system granted. All workers send them at once. A larger pool works, but may "
           "lose packets.");
  bind_jobs(bound);
}

}  // namespace jaxina
