// Binds the engine: the configuration of groups, start, shutdown, statistics and traces.
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <utility>

#include "rdma_engine/engine/engine.h"
#include "rdma_engine/engine/trace_events.h"
#include "rdma_engine/transport/verbs/availability.h"
#include "xla_ffi/bindings.h"
#include "xla_ffi/connection_end.h"
#include "xla_ffi/sum_counts.h"

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
  d["address"] = config.address;
  d["checksums"] = config.checksums;
  d["loss"] = config.loss.share;
  d["loss_seed"] = config.loss.seed;
  return d;
}

nb::dict fields_of(const UdpConfig& config) {
  nb::dict d = switched_fields("udp", config);
  d["ports"] = config.ports;
  d["first_window"] = config.first_window;
  return d;
}

nb::dict fields_of(const RoceConfig& config) { return switched_fields("roce", config); }

nb::dict fields_of(const VerbsConfig& config) {
  nb::dict d;
  d["kind"] = "verbs";
  d["device"] = config.device;
  return d;
}

// Only the counters that a worker has; the others belong to a switch.
nb::dict as_dict(const Counters& counters) {
  nb::dict d;
  for (const Counter counter :
       {Counter::kCollectives, Counter::kElements, Counter::kPacketsSent, Counter::kPacketsReceived,
        Counter::kBytesSent, Counter::kBytesReceived, Counter::kRetransmissions, Counter::kPacketsDropped,
        Counter::kPacketsUnsent, Counter::kPacketsRejected, Counter::kSocketOverflows, Counter::kStagedWords}) {
    const std::string_view name = to_string(counter);
    d[nb::str(name.data(), name.size())] = counters[counter];
  }
  return d;
}

}  // namespace

void bind_engine(nb::module_& m) {
  m.attr("SECOND_STREAM") = kSecondStream;  // see engine.h
  nb::class_<GroupConfig>(m, "GroupConfig", "How this process takes part in a group.")
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
          "worker: this process among the group's. local: its devices, by their places in the group. job, secret: at "
          "the "
          "aggregator; a group of one process needs none. Timeouts in seconds.")
      .def(
          "use_embedded", [](GroupConfig& c, std::string segment) { c.transport = EmbeddedConfig{std::move(segment)}; },
          "segment"_a, "Sums in shared memory of this name; \"\" is private to this process.")
      .def(
          "use_udp",
          [](GroupConfig& c, std::string address, std::vector<std::uint16_t> ports, bool checksums,
             std::uint32_t first_window, double loss, std::uint64_t loss_seed) {
            c.transport = UdpConfig{std::move(address), std::move(ports), checksums, first_window, {loss, loss_seed}};
          },
          "address"_a, "ports"_a, "checksums"_a = true, nb::kw_only(), "first_window"_a = 0, "loss"_a = 0.0,
          "loss_seed"_a = 0,
          "Sums at a switch's host: one data port per thread of it. checksums: whether its replies carry a CRC. "
          "first_window: passes it has room for at first, 0 if not known. loss: share of arriving packets to drop.")
      .def(
          "use_roce",
          [](GroupConfig& c, std::string address, nb::callable exchange, bool checksums, double loss,
             std::uint64_t loss_seed) {
            c.transport =
                RoceConfig{std::move(address), exchange_from(std::move(exchange)), checksums, {loss, loss_seed}};
          },
          "address"_a, "exchange"_a, "checksums"_a = true, nb::kw_only(), "loss"_a = 0.0, "loss_seed"_a = 0,
          "Sums at a switch by RDMA from user space. exchange(end) gives the switch this end of the queue pairs and "
          "returns "
          "the switch's, both as (address, udp_port, mtu, qpns, psn, rkey, memory). Called on the engine's own thread.")
      .def(
          "use_verbs",
          [](GroupConfig& c, std::string device, nb::callable exchange) {
            c.transport = VerbsConfig{std::move(device), exchange_from(std::move(exchange))};
          },
          "device"_a, "exchange"_a, "Sums at a switch by an RDMA device, \"\" for any; exchange as for use_roce.")
      .def_prop_ro("shape", [](const GroupConfig& c) { return c.member.shape; })
      .def_prop_ro("worker", [](const GroupConfig& c) { return c.member.worker; })
      .def_prop_ro("job", [](const GroupConfig& c) { return c.member.job; })
      .def_prop_ro("secret", [](const GroupConfig& c) { return c.member.secret; })
      .def_ro("local", &GroupConfig::local)
      .def_prop_ro(
          "transport",
          [](const GroupConfig& c) { return std::visit([](const auto& t) { return fields_of(t); }, c.transport); },
          "What was chosen by use_...(), as a dict with the transport's name as `kind`.");

  m.def(
      "start",
      [](nb::callable connector, nb::callable ended, bool trace) {
        Engine::Connector connect = connector_from(std::move(connector));
        Engine::Ended tell = ended_from(std::move(ended));
        nb::gil_scoped_release release;
        Engine::instance().start(std::move(connect), std::move(tell), trace);
      },
      "connector"_a, "ended"_a, "trace"_a = false,
      "Opens the engine. On its own threads it calls connector(group: list[int]) -> GroupConfig when a group is first "
      "used, and ended(group, code: str, message: str) when a group ends for a reason that other processes cannot see. "
      "With trace, records what its groups do.");
  m.def(
      "shutdown", [] { Engine::instance().shutdown(); }, nb::call_guard<nb::gil_scoped_release>(),
      "Fails pending collectives, leaves all groups and joins the engine's threads.");
  m.def(
      "take_trace",
      [](std::uint32_t process, const std::string& name) {
        TraceText text;
        {
          nb::gil_scoped_release release;
          text = trace_text(process, name, Engine::instance().take_trace());
        }
        return nb::make_tuple(nb::bytes(text.events.data(), text.events.size()), text.passes, text.fell_out);
      },
      "process"_a, "name"_a,
      "After shutdown(): what was recorded since start(), and forgets it. (events, passes, fell_out): Chrome trace "
      "events, "
      "one JSON object a line with commas between; how many slot passes are among them; how many older events had no "
      "room.");
  m.def("verbs_availability", &verbs::availability,
        "The RDMA device that the verbs transport would use, or what it misses.");
  m.def("running", [] { return Engine::instance().running(); });
  m.def(
      "abort",
      [](const Group& group, const std::string& code, const std::string& message) {
        const Status reason(error_code_named(code), message);
        nb::gil_scoped_release release;
        Engine::instance().abort(group, reason);
      },
      "group"_a, "code"_a, "message"_a,
      "Ends every collective of the group in this process, now and later, with this error; [] means all groups.");
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
      "Counters summed over the groups, by name.");
  m.def(
      "sum_counts",
      [] {
        nb::dict result;
        for (const auto& [name, counts] : sum_counts()) {
          result[nb::int_(name)] = nb::make_tuple(counts.floats, counts.rounded_to_zero);
        }
        return result;
      },
      "Of all sums of this process so far, by a call's `identity` or by the identity that begin_mpi_program() was "
      "given, as a "
      "number without sign: (floats on CPU, how many of them other than zero became zero).");
}

}  // namespace jaxina
