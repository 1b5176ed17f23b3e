// Binds the engine: start, shutdown, statistics and traces.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <utility>

#include "rdma_engine/base/clock.h"
#include "rdma_engine/engine/engine.h"
#include "rdma_engine/engine/trace_events.h"
#include "xla_ffi/bindings.h"
#include "xla_ffi/shared_callable.h"
#include "xla_ffi/sum_counts.h"
#include "xla_ffi/sum_names.h"
#include "xla_ffi/team.h"

namespace jaxina {

namespace nb = nanobind;
using namespace nb::literals;

namespace {

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
  m.def("name_sums", &name_sums, "names"_a,
        "From now on errors about workers that disagree say what a sum of this process is.\n\n"
        "Args:\n"
        "  names: (identity, name) of each sum. identity: of a psum's custom call, as in sum_counts().");
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
