// Binds the engine: the configuration of groups, start, shutdown, statistics and traces.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <utility>

#include "rdma_engine/base/clock.h"
#include "rdma_engine/encryption/availability.h"
#include "rdma_engine/engine/engine.h"
#include "rdma_engine/engine/trace_events.h"
#include "rdma_engine/net/interfaces.h"
#include "rdma_engine/transport/verbs/availability.h"
#include "xla_ffi/bindings.h"
#include "xla_ffi/connection_end.h"
#include "xla_ffi/job_key.h"
#include "xla_ffi/sum_counts.h"
#include "xla_ffi/team.h"

namespace jaxina {

namespace nb = nanobind;
using namespace nb::literals;

namespace {

// The engine copies and destroys its connector on its own threads, which do not hold the GIL. So copies share one
// Python reference, and the last copy takes the GIL to drop it. After the interpreter has ended the reference is
// leaked.
std::shared_ptr<nb::callable> shared_callable(nb::callable callable) {
  return std::shared_ptr<nb::callable>(new nb::callable(std::move(callable)), [](nb::callable* held) {
    if (!nb::is_alive()) return;
    nb::gil_scoped_acquire gil;
    delete held;
  });
}

Engine::Connector connector_from(nb::callable callable) {
  return [held = shared_callable(std::move(callable))](const Group& group) {
    nb::gil_scoped_acquire gil;
    try {
      return nb::cast<GroupConfig>((*held)(group));
    } catch (const nb::python_error& error) {
      throw to_native(error);
    } catch (const nb::cast_error&) {
      throw Error(ErrorCode::kInvalidArgument, "the connector did not return a GroupConfig");
    }
  };
}

Engine::Ended ended_from(nb::callable callable) {
  return [held = shared_callable(std::move(callable))](const Group& group, const Status& reason) {
    nb::gil_scoped_acquire gil;
    try {
      (*held)(group, std::string(to_string(reason.code)), reason.message);
    } catch (nb::python_error& error) {
      error.discard_as_unraisable("jaxina: telling other processes that a group has ended");
    }
  };
}

// (name, port, GID index) of an RDMA device.
using DeviceFields = std::tuple<std::string, std::optional<std::uint8_t>, std::optional<std::uint8_t>>;
RdmaDevice device_of(const DeviceFields& fields) {
  const auto& [name, port, gid_index] = fields;
  return {name, port, gid_index};
}

roce::Exchange exchange_from(nb::callable callable) {
  return [held = shared_callable(std::move(callable))](const roce::ConnectionEnd& local) {
    nb::gil_scoped_acquire gil;
    try {
      return connection_of(nb::cast<ConnectionFields>((*held)(fields_of(local))));
    } catch (const nb::python_error& error) {
      throw to_native(error);
    } catch (const nb::cast_error&) {
      throw Error(ErrorCode::kInvalidArgument, "what connects queue pairs did not return their fields");
    }
  };
}

roce::RingExchange ring_exchange_from(nb::callable callable) {
  return [held = shared_callable(std::move(callable))](const roce::ConnectionEnd& local) {
    nb::gil_scoped_acquire gil;
    try {
      const auto [next, previous] = nb::cast<std::tuple<ConnectionFields, ConnectionFields>>((*held)(fields_of(local)));
      return roce::RingNeighbours{connection_of(next), connection_of(previous)};
    } catch (const nb::python_error& error) {
      throw to_native(error);
    } catch (const nb::cast_error&) {
      throw Error(ErrorCode::kInvalidArgument, "what connects a ring did not return the fields of two neighbours");
    }
  };
}

nb::dict fields_of(const EmbeddedConfig& config) {
  nb::dict d;
  d["kind"] = "embedded";
  d["segment"] = config.segment;
  return d;
}

template <typename Switched>
nb::dict switched_fields(const char* kind, const Switched& config) {
  nb::dict d;
  d["kind"] = kind;
  d["checksums"] = config.checksums;
  d["loss"] = config.loss.share;
  d["loss_seed"] = config.loss.seed;
  return d;
}

nb::dict fields_of(const UdpConfig& config) {
  nb::dict d = switched_fields("udp", config);
  nb::list addresses;
  for (const HostPort& one : config.addresses) addresses.append(nb::make_tuple(one.host, one.port));
  d["addresses"] = std::move(addresses);
  d["at_workers"] = config.at_workers;
  nb::list switches;
  for (const HostPort& one : config.switches) switches.append(nb::make_tuple(one.host, one.port));
  d["switches"] = std::move(switches);
  d["first_window"] = config.first_window;
  d["workers_per_link"] = config.workers_per_link;
  d["host"] = config.host;
  d["encrypted"] = config.key.has_value();  // not the key, which is secret
  return d;
}

nb::dict fields_of(const RoceConfig& config) {
  nb::dict d = switched_fields("roce", config);
  d["address"] = config.address;
  return d;
}

DeviceFields fields_of(const RdmaDevice& device) { return {device.name, device.port, device.gid_index}; }

nb::dict fields_of(const VerbsConfig& config) {
  nb::dict d;
  d["kind"] = "verbs";
  d["device"] = fields_of(config.device);
  return d;
}

nb::dict fields_of(const RingConfig& config) {
  nb::dict d;
  d["kind"] = "ring";
  d["host"] = config.host;
  d["has_switch"] = config.has_switch;
  d["loss"] = config.loss.share;
  d["loss_seed"] = config.loss.seed;
  return d;
}

nb::dict fields_of(const VerbsRingConfig& config) {
  nb::dict d;
  d["kind"] = "verbs_ring";
  d["device"] = fields_of(config.device);
  d["has_switch"] = config.has_switch;
  d["longest_wait_s"] = config.longest_wait_s;
  return d;
}

// Only the counters that a worker has; the others belong to a switch.
nb::dict as_dict(const Counters& counters) {
  nb::dict d;
  for (const Counter counter :
       {Counter::kCollectives, Counter::kElements, Counter::kPacketsSent, Counter::kPacketsReceived,
        Counter::kBytesSent, Counter::kBytesReceived, Counter::kBytesOf32Bits, Counter::kBytesOf16Bits,
        Counter::kBytesOf8Bits, Counter::kRetransmissions, Counter::kPacketsDropped, Counter::kPacketsUnsent,
        Counter::kPacketsRejected, Counter::kMarked, Counter::kWindowDecreases, Counter::kSocketOverflows,
        Counter::kStagedWords}) {
    const std::string_view name = to_string(counter);
    d[nb::str(name.data(), name.size())] = counters[counter];
  }
  return d;
}

}  // namespace

void bind_engine(nb::module_& m) {
  m.attr("SECOND_STREAM") = kSecondStream;  // see engine.h
  nb::class_<GroupConfig>(m, "GroupConfig",
                          "How this process takes part in a group. A group of several processes needs one "
                          "call of a use_...() method, which chooses the transport.")
      .def(
          "__init__",
          [](GroupConfig* self, const JobShape& shape, std::uint32_t worker, std::vector<std::uint32_t> local,
             std::uint32_t job, std::uint64_t secret, double join_timeout_s, double collective_timeout_s) {
            new (self) GroupConfig{.member = {shape, worker, job, secret, join_timeout_s},
                                   .local = std::move(local),
                                   .transport = {},
                                   .collective_timeout_s = collective_timeout_s};
          },
          nb::kw_only(), "shape"_a, "worker"_a, "local"_a, "job"_a = 0, "secret"_a = 0, "join_timeout_s"_a = 60.0,
          "collective_timeout_s"_a = 300.0,
          "Args:\n"
          "  shape: the job's shape.\n"
          "  worker: this process's index among the group's processes.\n"
          "  local: this process's devices, as indices into the group.\n"
          "  job: the job's id at the aggregator; a group of one process needs none.\n"
          "  secret: the job's secret, 64 bits; a group of one process needs none.\n"
          "  join_timeout_s: how long to wait for the other processes, in seconds.\n"
          "  collective_timeout_s: how long one collective may take, in seconds.")
      .def(
          "use_embedded", [](GroupConfig& c, std::string segment) { c.transport = EmbeddedConfig{std::move(segment)}; },
          "segment"_a,
          "Sums in shared memory.\n\n"
          "Args:\n"
          "  segment: the name of the shared-memory segment; \"\" makes one that is private to this process.")
      .def(
          "use_udp",
          [](GroupConfig& c, const std::vector<std::tuple<std::string, std::uint16_t>>& addresses, bool checksums,
             bool at_workers, const std::vector<std::tuple<std::string, std::uint16_t>>& switches,
             std::uint32_t first_window, std::uint32_t workers_per_link, std::string host, const nb::bytes& key,
             double loss, std::uint64_t loss_seed) {
            if (workers_per_link == 0) {
              throw Error(ErrorCode::kInvalidArgument, "at least one worker uses a link");
            }
            UdpConfig config{.addresses = {},
                             .at_workers = at_workers,
                             .checksums = checksums,
                             .first_window = first_window,
                             .workers_per_link = workers_per_link,
                             .host = std::move(host),
                             .key = key_of(key),
                             .loss = {loss, loss_seed}};
            for (const auto& [host, port] : addresses) config.addresses.push_back({host, port});
            for (const auto& [host, port] : switches) config.switches.push_back({host, port});
            c.transport = std::move(config);
          },
          "addresses"_a, "checksums"_a = true, nb::kw_only(), "at_workers"_a = false,
          "switches"_a = std::vector<std::tuple<std::string, std::uint16_t>>{}, "first_window"_a = 0,
          "workers_per_link"_a = 1, "host"_a = "", "key"_a = nb::bytes("", 0), "loss"_a = 0.0, "loss_seed"_a = 0,
          "Sums at a switch, or at the workers' own servers, over UDP.\n\n"
          "Args:\n"
          "  addresses: (host, port) of each of the switch's threads, or of each worker's server; slot i belongs to "
          "addresses[i % len(addresses)].\n"
          "  checksums: whether the replies carry a CRC.\n"
          "  at_workers: whether addresses[i] is the server in worker i's process.\n"
          "  switches: (host, port) of the switches on the way that may combine updates; slot i goes through "
          "switches[i % len(switches)].\n"
          "  first_window: for how many passes there is room at first; 0 if that is not known.\n"
          "  workers_per_link: how many workers' packets share a link to a server or a switch.\n"
          "  host: this process's numeric address; \"\" lets the route decide.\n"
          "  key: the job's key, JOB_KEY_BYTES random bytes, if its packets are encrypted; b\"\" if they are not.\n"
          "  loss: share of arriving packets to drop, for experiments, in [0, 1].\n"
          "  loss_seed: seed of these drops.")
      .def(
          "use_roce",
          [](GroupConfig& c, std::string address, nb::callable exchange, bool checksums, double loss,
             std::uint64_t loss_seed) {
            c.transport =
                RoceConfig{std::move(address), exchange_from(std::move(exchange)), checksums, {loss, loss_seed}};
          },
          "address"_a, "exchange"_a, "checksums"_a = true, nb::kw_only(), "loss"_a = 0.0, "loss_seed"_a = 0,
          "Sums at a switch, by RoCEv2 from user space.\n\n"
          "Args:\n"
          "  address: the switch's host.\n"
          "  exchange: exchange(end) gives the switch this end of the queue pairs and returns the switch's end. Both "
          "are tuples (address, udp_port, mtu, qpns, psn, rkey, memory), as jaxina.control.data_plane.QueuePairs has "
          "them. It is called on a thread of the engine.\n"
          "  checksums: whether the switch's packets carry a right ICRC.\n"
          "  loss: share of arriving packets to drop, for experiments, in [0, 1].\n"
          "  loss_seed: seed of these drops.")
      .def(
          "use_verbs",
          [](GroupConfig& c, const DeviceFields& device, nb::callable exchange) {
            c.transport = VerbsConfig{device_of(device), exchange_from(std::move(exchange))};
          },
          "device"_a, "exchange"_a,
          "Sums at a switch, by an RDMA device.\n\n"
          "Args:\n"
          "  device: (name, port, GID index) of the RDMA device. An empty name, and None, take any.\n"
          "  exchange: as for use_roce().")
      .def(
          "use_ring",
          [](GroupConfig& c, std::string host, nb::callable exchange, bool has_switch, double loss,
             std::uint64_t loss_seed) {
            c.transport =
                RingConfig{std::move(host), ring_exchange_from(std::move(exchange)), has_switch, {loss, loss_seed}};
          },
          "host"_a, "exchange"_a, nb::kw_only(), "has_switch"_a = false, "loss"_a = 0.0, "loss_seed"_a = 0,
          "Sums in a ring of reliable RoCEv2 connections, from user space.\n\n"
          "Args:\n"
          "  host: this process's IPv4 address.\n"
          "  exchange: exchange(end) tells the other workers this one's end of its queue pairs (the one that sends, then "
          "the one that receives), and returns those of the next and of the previous worker. Ends are tuples as for "
          "use_roce().\n"
          "  has_switch: whether a transparent switch on the way adds; otherwise the workers do.\n"
          "  loss: share of arriving packets to drop, for experiments, in [0, 1].\n"
          "  loss_seed: seed of these drops.")
      .def(
          "use_verbs_ring",
          [](GroupConfig& c, const DeviceFields& device, nb::callable exchange, bool has_switch,
             double longest_wait_s) {
            c.transport =
                VerbsRingConfig{device_of(device), ring_exchange_from(std::move(exchange)), has_switch, longest_wait_s};
          },
          "device"_a, "exchange"_a, nb::kw_only(), "has_switch"_a = false, "longest_wait_s"_a = 300.0,
          "Sums in a ring of reliable connections of an RDMA device.\n\n"
          "Args:\n"
          "  device: as for use_verbs().\n"
          "  exchange: as for use_ring().\n"
          "  has_switch: as for use_ring().\n"
          "  longest_wait_s: how long a worker may be late, in seconds; connections through a switch last as long.")
      .def_prop_ro(
          "shape", [](const GroupConfig& c) { return c.member.shape; }, "The job's shape.")
      .def_prop_ro(
          "worker", [](const GroupConfig& c) { return c.member.worker; },
          "This process's index among the group's processes.")
      .def_prop_ro(
          "job", [](const GroupConfig& c) { return c.member.job; }, "The job's id at the aggregator.")
      .def_prop_ro(
          "secret", [](const GroupConfig& c) { return c.member.secret; }, "The job's secret, 64 bits.")
      .def_ro("local", &GroupConfig::local, "This process's devices, as indices into the group.")
      .def_prop_ro(
          "transport",
          [](const GroupConfig& c) { return std::visit([](const auto& t) { return fields_of(t); }, c.transport); },
          "The transport that a use_...() method chose, as a dict: 'kind' is its name, the other keys are the method's "
          "arguments without `exchange`.");

  m.def(
      "start",
      [](nb::callable connector, nb::callable ended, bool trace) {
        Engine::Connector connect = connector_from(std::move(connector));
        Engine::Ended tell = ended_from(std::move(ended));
        nb::gil_scoped_release release;
        Engine::instance().start(std::move(connect), std::move(tell), trace);
      },
      "connector"_a, "ended"_a, "trace"_a = false,
      "Opens the engine of this process. Both callables are called on threads of the engine.\n\n"
      "Args:\n"
      "  connector: connector(group: list[int]) -> GroupConfig, called when a group is first used. It may block until "
      "the other processes have joined. If it raises, the group's collectives fail with that error.\n"
      "  ended: ended(group: list[int], code: str, message: str), called when a group ends for a reason that other "
      "processes cannot see.\n"
      "  trace: whether to record what the groups do, for take_trace().\n\n"
      "Raises:\n"
      "  InvalidArgumentError: if the engine is open already.");
  m.def(
      "shutdown", [] { Engine::instance().shutdown(); }, nb::call_guard<nb::gil_scoped_release>(),
      "Closes the engine: fails pending collectives with ShutDownError, leaves all groups and joins the engine's "
      "threads.");
  m.def(
      "take_trace",
      [](std::uint32_t process, const std::string& name) {
        TraceText text;
        {
          nb::gil_scoped_release release;
          text = trace_text(process, name, Engine::instance().take_trace());
        }
        return nb::make_tuple(nb::bytes(text.events.data(), text.events.size()), text.passes, text.overwritten);
      },
      "process"_a, "name"_a,
      "Returns what was recorded between the latest start() and shutdown(), and forgets it. Call it after "
      "shutdown().\n\n"
      "Args:\n"
      "  process: this process's rank, which identifies it in the trace.\n"
      "  name: the process's name in the trace.\n\n"
      "Returns:\n"
      "  (events, passes, overwritten). events: bytes, events in Chrome's trace format, one JSON object per line with "
      "commas between. passes: how many slot passes are among them. overwritten: how many older events were dropped "
      "because there was no room.");
  m.def(
      "interface_addresses",
      [] {
        nb::list result;
        for (const net::InterfaceAddress& one : net::interface_addresses()) {
          result.append(nb::make_tuple(one.interface, one.address, one.prefix_length, one.mtu, one.up, one.loopback));
        }
        return result;
      },
      "The addresses of this host's network interfaces, without IPv6's link-local ones.\n\n"
      "Returns:\n"
      "  A list of (interface, address, prefix_length, mtu, up, loopback). address: numeric. mtu: bytes. up: whether the "
      "interface is up and has a link.");
  m.def("encryption_availability", &encryption::availability,
        "Names the library with which packets would be encrypted, or says what is missing.");
  m.def("check_encryption", &encryption::check_available,
        "Checks that this host can encrypt packets.\n\n"
        "Raises:\n"
        "  InvalidArgumentError: it cannot. The message says why.");
  m.def("verbs_availability", &verbs::availability,
        "Describes the RDMA devices that the verbs transport could use, or what it lacks, in words.");
  m.def(
      "check_rdma_device", [](const DeviceFields& device) { verbs::check_device(device_of(device)); }, "device"_a,
      nb::call_guard<nb::gil_scoped_release>(),
      "Checks that this host has an RDMA device, and can use it now.\n\n"
      "Args:\n"
      "  device: as for GroupConfig.use_verbs().\n\n"
      "Raises:\n"
      "  InvalidArgumentError: it cannot. The message says why.");
  m.def(
      "running", [] { return Engine::instance().running(); },
      "Whether the engine is open. False in a child that was forked while it was open, because the engine's threads "
      "are the parent's.");
  m.def(
      "set_team",
      [](const Group& group, std::int64_t member, std::uint64_t step) {
        set_team(group.empty() ? std::nullopt : std::optional(Team{group, member, step}));
      },
      "group"_a, "member"_a = 0, "step"_a = 0,
      "Says with whom this process sums from now on, in custom calls of `jaxina_team_all_reduce`.\n\n"
      "Args:\n"
      "  group: the numbers of all members; []: nobody, the calls fail.\n"
      "  member: this process's number.\n"
      "  step: the attempt at a step; sums of different attempts are never added together.");
  m.def(
      "abort",
      [](const Group& group, const std::string& code, const std::string& message) {
        const Status reason(error_code_named(code), message);
        nb::gil_scoped_release release;
        Engine::instance().abort(group, reason);
      },
      "group"_a, "code"_a, "message"_a,
      "Ends every collective of a group in this process, current and future ones, with an error.\n\n"
      "Args:\n"
      "  group: global device ids of the group; [] means all groups.\n"
      "  code: the error's code, for example \"WORKER_LOST\" (see jaxina.errors).\n"
      "  message: the error's message.\n\n"
      "Raises:\n"
      "  InvalidArgumentError: if there is no such code.");
  m.def(
      "statistics",
      [] {
        Counters counters;
        {
          nb::gil_scoped_release release;
          counters = Engine::instance().statistics();
        }
        return as_dict(counters);
      },
      "The engine's counters since start(), summed over all groups: a dict from the counter's name to a number. "
      "bytes_sent and bytes_received count IP packets, and are 0 for shared memory, where packets are passes.");
  m.def(
      "under_way",
      [] {
        std::map<Group, std::vector<UnderWay::Device>> groups;
        {
          nb::gil_scoped_release release;
          groups = Engine::instance().under_way();
        }
        const Nanoseconds time = now();
        nb::list result;
        for (const auto& [group, devices] : groups) {
          for (const UnderWay::Device& device : devices) {
            nb::object waiting = nb::none();
            if (const auto& oldest = device.oldest) {
              const double seconds = static_cast<double>(time - oldest->since) / 1e9;
              waiting = nb::make_tuple(oldest->number, oldest->identity, seconds);
            }
            result.append(nb::make_tuple(nb::cast(group), group[device.index], device.submitted, std::move(waiting)));
          }
        }
        return result;
      },
      "The collectives that this process's devices have submitted since start().\n\n"
      "Returns:\n"
      "  A list of (group, device, submitted, waiting), one for each device and group. group: global device ids, see "
      "SECOND_STREAM. submitted: how many collectives the device has submitted in the group. waiting: of those that "
      "have not completed the oldest, as (number, identity, seconds); None if all have. Numbers count from 1.");
  m.def(
      "sum_counts",
      [] {
        nb::dict result;
        for (const auto& [name, counts] : sum_counts()) {
          result[nb::int_(name)] = nb::make_tuple(counts.floats, counts.rounded_to_zero);
        }
        return result;
      },
      "How many floats all sums of this process have turned into words so far, by program.\n\n"
      "Returns:\n"
      "  A dict from an identity, as an unsigned 64-bit number, to (floats, rounded_to_zero). The identity is that of "
      "a "
      "psum's custom call, or what begin_mpi_program() was given. floats: floats on CPU, a complex number counts as "
      "two. rounded_to_zero: how many of them were not zero but became zero.");
}

}  // namespace jaxina
