// trace_text: a process's recorders as text in Chrome's trace event format, which ui.perfetto.dev and chrome://tracing
// read.
//
// The trace's process number is the rank. A group has one track for its thread, which shows waits, and one for each
// slot. On a slot's track, a pass is a slice from its first transmission to its result, and packets are instants.
// Collectives overlap, so they are asynchronous slices. Times are microseconds of the monotonic clock, which all
// processes of a host share.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "rdma_engine/engine/engine.h"

namespace jaxina {

struct TraceText {
  std::string events;             // JSON objects, one per line, separated by commas
  std::uint64_t passes = 0;       // passes that are slices
  std::uint64_t overwritten = 0;  // events that the recorders have overwritten
};

TraceText trace_text(std::uint32_t process, const std::string& name,
                     const std::map<Group, std::unique_ptr<Recorder>>& trace);

}  // namespace jaxina
