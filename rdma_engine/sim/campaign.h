// Many seeds on many cores.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "rdma_engine/sim/simulation.h"

namespace jaxina::sim {

struct Failure {
  std::uint64_t seed;
  std::string what;
};

struct CampaignResult {
  std::uint64_t seeds = 0;
  std::vector<Failure> failures;  // by seed; at most a few, then the campaign stops
  Outcome total;                  // counters summed over seeds; log_hash is independent of the number of threads
  double seconds = 0;             // by the clock
  double core_seconds = 0;        // of processor time
};

// Runs the seeds [begin, end). `done`, if given, counts finished seeds while this runs; setting `stop` ends it early.
CampaignResult run_campaign(const Scenario& scenario, std::uint64_t begin, std::uint64_t end, unsigned threads,
                            std::atomic<std::uint64_t>* done = nullptr, const std::atomic<bool>* stop = nullptr);

}  // namespace jaxina::sim
