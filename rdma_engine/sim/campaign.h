// run_campaign: runs many seeds on many cores.
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
  std::vector<Failure> failures;  // sorted by seed. A campaign stops after a few failures
  Outcome total;                  // counters summed over all seeds. log_hash does not depend on the number of threads
  double seconds = 0;             // wall-clock time
  double core_seconds = 0;        // processor time
};

// Runs the seeds [begin, end) on `threads` threads. `done`, if given, counts finished seeds while this runs. Setting
// `stop` ends the campaign early.
CampaignResult run_campaign(const Scenario& scenario, std::uint64_t begin, std::uint64_t end, unsigned threads,
                            std::atomic<std::uint64_t>* done = nullptr, const std::atomic<bool>* stop = nullptr);

}  // namespace jaxina::sim
