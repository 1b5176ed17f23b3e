// Counts in the simulator how many jobs get their link again after their workers have stood still (docs/atp.md).
//   recovery_bench [SEEDS]
// Jobs of 4 and 8 workers sum through a switch that combines, at one server's host, without marks. Links lose one
// packet of 1,000, and their queues hold 10 ms, as on the testbed. Each worker stands still three times in the first
// 0.8 s, for up to 0.3 s, as a process does that waits for a processor. Goodput is measured from 1.6 s to 2.0 s. Each
// line has how many of SEEDS (40 by default) jobs have less than 0.6 of a worker's link then, how many have less than
// 0.05, and the mean of all.
#include <cstdio>
#include <cstdlib>

#include "rdma_engine/sim/sharing_study.h"

int main(int argc, char** argv) {
  using namespace jaxina::sim;
  const std::uint64_t seeds = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 40;
  if (argc > 2 || seeds == 0) return std::fprintf(stderr, "usage: recovery_bench [SEEDS]\n"), 2;
  std::printf("n: below 0.6 of the link, below 0.05; mean\n");
  for (const std::uint32_t workers : {4, 8}) {
    std::uint64_t slow = 0, stopped = 0;
    double sum = 0;
    for (std::uint64_t seed = 0; seed < seeds; ++seed) {
      SharingCase what{.seed = seed, .workers = workers, .loss = 0.001, .entries = 1031, .marks = false};
      what.queue = 10'000'000;
      what.pauses = 300'000'000;
      what.settled = 1'600'000'000;
      const SharingFigures figures = study_sharing(what);
      if (!figures.failure.empty()) return std::fprintf(stderr, "%s\n", figures.failure.c_str()), 1;
      slow += figures.of_link < 0.6;
      stopped += figures.of_link < 0.05;
      sum += figures.of_link;
    }
    std::printf("%u: %llu, %llu of %llu; %.3f\n", workers, static_cast<unsigned long long>(slow),
                static_cast<unsigned long long>(stopped), static_cast<unsigned long long>(seeds),
                sum / static_cast<double>(seeds));
    std::fflush(stdout);
  }
}
