// Binds the configuration of a group: who takes part, and the transport.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <utility>

#include "rdma_engine/engine/engine.h"
#include "xla_ffi/bindings.h"
#include "xla_ffi/connection_end.h"
#include "xla_ffi/device_fields.h"
#include "xla_ffi/job_key.h"
#include "xla_ffi/shared_callable.h"

namespace jaxina {

namespace nb = nanobind;
using namespace nb::literals;

namespace {

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

}  // namespace

void bind_group(nb::module_& m) {
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
}

}  // namespace jaxina
