// Measures in the simulator what jobs get from a switch whose memory they share, and compares it with memory that is
// reserved for each job, and with servers alone (docs/atp.md).
//   tenants_bench [SEEDS [JOBS [OVERSUBSCRIPTION]]]
// Each job has 4 workers and a window of at most 64 passes, and there is a host for each job's server. On these links,
// 14 passes in flight between worker and switch are what fills a link. The load is 16 passes for each job, as a share
// of the places; the table has the next prime number of entries. The oversubscription is that of the links between two
// racks and a core, with a switch in each; 1: all are at one switch. Without JOBS, there are 1, 2, 4 and 8; without
// OVERSUBSCRIPTION, it is 1, 2 and 4. Each line has medians of SEEDS (3 by default) seeds:
// * goodput of a job, as a share of a worker's link: entries that jobs share; the same number of places reserved in
//   equal parts, of which a slot takes two (as the aggregator udp does); servers alone;
// * updates that found a place among the shared entries, and (1 - e^-load) / load. That is the share if each pass takes
//   a place at random.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "rdma_engine/combiner/entry_table.h"
#include "rdma_engine/sim/sharing_study.h"

namespace {

using jaxina::sim::SharingCase;
using jaxina::sim::SharingFigures;

constexpr std::uint32_t kWorkers = 4, kMostSlots = 64, kSlotsThatFill = 16;

struct Medians {
  double of_link, hits;
};

double median(std::vector<double>& values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

Medians measure(SharingCase what, std::uint64_t seeds) {
  std::vector<double> of_link, hits;
  for (what.seed = 0; what.seed < seeds; ++what.seed) {
    const SharingFigures figures = jaxina::sim::study_sharing(what);
    if (!figures.failure.empty()) std::fprintf(stderr, "%s\n", figures.failure.c_str()), std::exit(1);
    of_link.push_back(figures.of_link);
    hits.push_back(figures.hits);
  }
  return {median(of_link), median(hits)};
}

void measure_all(std::uint32_t jobs, std::uint32_t oversubscription, std::uint64_t seeds) {
  SharingCase what{.jobs = jobs,
                   .workers = kWorkers,
                   .slots = kMostSlots,
                   .oversubscription = oversubscription > 1 ? oversubscription : 0,
                   .servers = jobs,
                   .threshold = 1'000'000,
                   .second_starts_at = 7'000'000,
                   .delay = 250'000};
  what.entries = 0;
  const Medians servers = measure(what, seeds);
  for (const double load : {0.25, 0.5, 1.0, 2.0, 4.0}) {
    what.reserved = false;
    what.slots = kMostSlots;
    const auto places = static_cast<std::uint32_t>(std::lround(jobs * kSlotsThatFill / load));
    what.entries = jaxina::prime_entries(places);
    const Medians shared = measure(what, seeds);
    what.reserved = true;
    what.slots = std::clamp(what.entries / jobs / 2, 1u, kMostSlots);
    const Medians reserved = measure(what, seeds);
    std::printf("%u,%u,%.2f,%u,%.3f,%.3f,%.3f,%.3f,%.3f\n", oversubscription, jobs, load, what.entries, shared.of_link,
                reserved.of_link, servers.of_link, shared.hits, -std::expm1(-load) / load);
    std::fflush(stdout);
  }
}

// The number that an argument gives, or all of `others` if there is none.
std::vector<std::uint32_t> chosen(int argc, char** argv, int argument, std::vector<std::uint32_t> others) {
  if (argc <= argument) return others;
  return {static_cast<std::uint32_t>(std::strtoul(argv[argument], nullptr, 10))};
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t seeds = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 3;
  const std::vector<std::uint32_t> jobs = chosen(argc, argv, 2, {1, 2, 4, 8});
  const std::vector<std::uint32_t> oversubscriptions = chosen(argc, argv, 3, {1, 2, 4});
  if (argc > 4 || seeds == 0 || jobs[0] == 0 || oversubscriptions[0] == 0) {
    return std::fprintf(stderr, "usage: tenants_bench [SEEDS [JOBS [OVERSUBSCRIPTION]]]\n"), 2;
  }
  std::printf("oversubscription,jobs,load,entries,shared,reserved,servers,hits,random\n");
  for (const std::uint32_t oversubscription : oversubscriptions) {
    for (const std::uint32_t count : jobs) measure_all(count, oversubscription, seeds);
  }
}
