// jaxina_sim SEED | FIRST:END [SCENARIO [THREADS]]: runs seeds without Python. For a single seed it prints its plan and
// timeline.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "rdma_engine/sim/campaign.h"

namespace {

// For printf.
unsigned long long number(std::uint64_t value) { return value; }

}  // namespace

int main(int argc, char** argv) {
  using namespace jaxina::sim;
  if (argc < 2) {
    std::fprintf(stderr, "usage: jaxina_sim SEED | FIRST:END [SCENARIO [THREADS]]\n");
    return 2;
  }
  const std::string seeds = argv[1];
  const Scenario* scenario = scenario_named(argc > 2 ? argv[2] : "swarm");
  if (scenario == nullptr) {
    std::fprintf(stderr, "unknown scenario %s\n", argv[2]);
    return 2;
  }
  const std::size_t colon = seeds.find(':');
  if (colon == std::string::npos) {
    const std::uint64_t seed = std::stoull(seeds);
    Random random(seed);
    const Plan plan = draw_plan(*scenario, seed, random);
    Trace trace;
    const Outcome outcome = run(plan, random, &trace);
    std::printf("%s%s\nhash %016llx\n%s\n", to_string(plan).c_str(), trace.text().c_str(), number(outcome.log_hash),
                outcome.failure.empty() ? "ok" : outcome.failure.c_str());
    return outcome.failure.empty() ? 0 : 1;
  }
  const unsigned threads = argc > 3 ? static_cast<unsigned>(std::atoi(argv[3])) : std::thread::hardware_concurrency();
  const CampaignResult result =
      run_campaign(*scenario, std::stoull(seeds.substr(0, colon)), std::stoull(seeds.substr(colon + 1)), threads);
  for (const Failure& failure : result.failures) {
    std::printf("seed %llu: %s\n", number(failure.seed), failure.what.c_str());
  }
  const Outcome& total = result.total;
  const double packets = static_cast<double>(total.network.sent + total.network.duplicated);
  std::printf(
      "%llu seeds, %zu failed; %.0f packets (%llu lost, %llu by the switch's buffer, %llu corrupted, %llu hostile), "
      "%llu sent again, %llu sums, %llu jobs finished, %llu ended early; hash %016llx; %.3f s of virtual time; %.2f s, "
      "%.2f million packets per core and second\n",
      number(result.seeds), result.failures.size(), packets, number(total.network.lost),
      number(total.network.overflowed), number(total.network.corrupted), number(total.hostile),
      number(total.retransmissions), number(total.sums), number(total.jobs_finished), number(total.jobs_ended_early),
      number(total.log_hash), static_cast<double>(total.virtual_time) * 1e-9, result.seconds,
      packets / result.core_seconds / 1e6);
  return result.failures.empty() ? 0 : 1;
}
