// A process's recorders as text in Chrome's trace event format, which ui.perfetto.dev and chrome://tracing read.
//
// The process is its rank. A group has a track for its thread, with the waits, and one for each slot: a pass is a slice
// from its first transmission to its result, packets are instants on it. Collectives, which overlap, are asynchronous
// slices. Times are microseconds of the monotonic clock, which the processes of a host share.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "rdma_engine/engine/engine.h"

namespace jaxina {

struct TraceText {
  std::string events;          // JSON objects, one a line, with commas between
  std::uint64_t passes = 0;    // that are slices
  std::uint64_t fell_out = 0;  // events that the recorders had no room for
};

TraceText trace_text(std::uint32_t process, const std::string& name,
                     const std::map<Group, std::unique_ptr<Recorder>>& trace);

}  // namespace jaxina
