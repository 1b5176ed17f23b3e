// SwitchCounters: all counters of a switch.
#pragma once

#include <cstdint>
#include <map>

#include "rdma_engine/base/counters.h"

namespace jaxina {

struct SwitchCounters {
  // By job: the aggregators' counters, with the packets and bytes (of UDP payload) of their workers.
  std::map<std::uint32_t, Counters> jobs;
  Counters without_job;                         // rejected packets that belong to no job
  std::uint64_t entries = 0, entries_held = 0;  // of the table that combined jobs share
  Counters sockets;  // packets received (before any is dropped on purpose), dropped, unsent, and overflows
};

}  // namespace jaxina
