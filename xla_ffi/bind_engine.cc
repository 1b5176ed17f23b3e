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

namespace jaxina {

namespace nb = nanobind;
using namespace nb::literals;

namespace {

// The engine copies and drops its connector on its own threads, so the reference is counted here and given up with
// the GIL held; after the interpreter's end it is leaked.
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
      return nb::cast<EndpointConfig>((*held)(group));
    } catch (const nb::python_error& error) {
      throw to_native(error);
    } catch (const nb::cast_error&) {
      throw Error(ErrorCode::kInvalidArgument, "the connector did not return an EndpointConfig");
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

nb::dict as_dict(const Statistics& s) {
  nb::dict d;
  d["collectives"] = s.collectives;
  d["elements"] = s.elements;
  d["packets_sent"] = s.packets_sent;
  d["packets_received"] = s.packets_received;
  d["bytes_sent"] = s.bytes_sent;
  d["bytes_received"] = s.bytes_received;
  d["retransmissions"] = s.retransmissions;
  d["packets_dropped"] = s.packets_dropped;
  d["packets_rejected"] = s.packets_rejected;
  d["staged_words"] = s.staged_words;
  return d;
}

}  // namespace

void bind_engine(nb::module_& m) {
  nb::class_<EndpointConfig>(m, "EndpointConfig", "How this process takes part in a group.")
      .def(nb::init<>())
      .def_rw("transport", &EndpointConfig::transport)
      .def_rw("devices", &EndpointConfig::devices)
      .def_rw("local", &EndpointConfig::local)
      .def_rw("workers", &EndpointConfig::workers)
      .def_rw("worker", &EndpointConfig::worker)
      .def_rw("job", &EndpointConfig::job)
      .def_rw("secret", &EndpointConfig::secret)
      .def_rw("slots", &EndpointConfig::slots)
      .def_rw("block_size", &EndpointConfig::block_size)
      .def_rw("blocks_per_chunk", &EndpointConfig::blocks_per_chunk)
      .def_rw("segment", &EndpointConfig::segment)
      .def_rw("address", &EndpointConfig::address)
      .def_rw("ports", &EndpointConfig::ports)
      .def(
          "set_exchange",
          [](EndpointConfig& config, nb::callable exchange) { config.exchange = exchange_from(std::move(exchange)); },
          "exchange"_a,
          "For RDMA: exchange(end) gives the switch this end of the queue pairs and returns the switch's, both as "
          "(address, udp_port, mtu, qpns, psn, rkey, memory). Called on the engine's own thread.")
      .def_rw("whole_chunks", &EndpointConfig::whole_chunks)
      .def_rw("checksums", &EndpointConfig::checksums)
      .def_rw("rdma_device", &EndpointConfig::rdma_device)
      .def_rw("loss", &EndpointConfig::loss)
      .def_rw("loss_seed", &EndpointConfig::loss_seed)
      .def_rw("join_timeout_s", &EndpointConfig::join_timeout_s)
      .def_rw("collective_timeout_s", &EndpointConfig::collective_timeout_s);

  m.def(
      "start", [](nb::callable connector, nb::callable ended, bool trace) {
        Engine::Connector connect = connector_from(std::move(connector));
        Engine::Ended tell = ended_from(std::move(ended));
        nb::gil_scoped_release release;
        Engine::instance().start(std::move(connect), std::move(tell), trace);
      },
      "connector"_a, "ended"_a, "trace"_a = false,
      "Opens the engine. On its own threads it calls connector(group: list[int]) -> EndpointConfig when a group is first "
      "used, and ended(group, code: str, message: str) when a group ends for a reason that other processes cannot see. With trace, records what its groups do.");
  m.def("shutdown", [] { Engine::instance().shutdown(); }, nb::call_guard<nb::gil_scoped_release>(),
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
      "After shutdown(): what was recorded since start(), and forgets it. (events, passes, fell_out): Chrome trace events, "
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
        Statistics statistics;
        {
          nb::gil_scoped_release release;
          statistics = Engine::instance().statistics();
        }
        return as_dict(statistics);
      },
      "Counters summed over the groups, by name.");
}

}  // namespace jaxina
