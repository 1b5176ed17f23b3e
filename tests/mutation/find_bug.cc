// find_bug SCENARIO: linked with a core that has a planted bug. It succeeds if the simulator finds the bug within 1,000
// seeds.
#include <cstdio>

#include "rdma_engine/sim/campaign.h"

int main(int argc, char** argv) {
  const jaxina::sim::Scenario* scenario = argc == 2 ? jaxina::sim::scenario_named(argv[1]) : nullptr;
  if (scenario == nullptr) return std::fprintf(stderr, "usage: find_bug SCENARIO\n"), 2;
  constexpr std::uint64_t kSeeds = 1000;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const jaxina::sim::Outcome outcome = jaxina::sim::simulate(*scenario, seed);
    if (outcome.failure.empty()) continue;
    std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), outcome.failure.c_str());
    return 0;
  }
  std::printf("the planted bug survived %llu seeds\n", static_cast<unsigned long long>(kSeeds));
  return 1;
}
