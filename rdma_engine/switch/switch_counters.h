// What a switch has counted.
#pragma once

#include <cstdint>
#include <map>

#include "rdma_engine/base/counters.h"

namespace jaxina {

struct SwitchCounters {
  std::map<std::uint32_t, Counters>
      jobs;            // the aggregators', with the packets and bytes (UDP payload) of their workers
  Counters strangers;  // rejects of packets that belong to no job
  Counters sockets;    // packets received, before any is dropped on purpose; dropped; unsent; overflows
};

}  // namespace jaxina
