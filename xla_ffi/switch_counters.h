// What a switch has counted, as Python's dicts.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <string_view>

#include "rdma_engine/aggregator/aggregator.h"

namespace jaxina {

// Kinds without a packet are left out.
inline nanobind::dict as_dict(const Aggregator::Rejects& rejects) {
  nanobind::dict d;
  for (std::size_t kind = 0; kind < rejects.size(); ++kind) {
    const std::string_view name = to_string(static_cast<Reject>(kind));
    if (rejects[kind] > 0) d[nanobind::str(name.data(), name.size())] = rejects[kind];
  }
  return d;
}

inline nanobind::dict as_dict(const JobCounters& counters, const Aggregator::Rejects& rejects) {
  nanobind::dict d;
  d["updates"] = counters.updates;
  d["results"] = counters.results;
  d["duplicates"] = counters.duplicates;
  d["packets_sent"] = counters.packets_sent;
  d["bytes_received"] = counters.bytes_received;
  d["bytes_sent"] = counters.bytes_sent;
  d["rejected"] = as_dict(rejects);
  return d;
}

}  // namespace jaxina
