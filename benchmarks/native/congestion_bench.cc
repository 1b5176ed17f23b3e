// Measures in the simulator what keeps a link from overflowing that several workers' packets share: nothing, the rule
// of long round trips, or the marks of the switch (docs/atp.md).
//   congestion_bench [SEEDS]
// Jobs send through one switch, which combines a part of their passes, to a server behind one link. Each line has the
// median of SEEDS (9 by default) seeds, of which each has links of another delay, and the least and the most:
// * goodput, as a share of the model 1 / (1 + (n - 1) f) of the link, for n workers and a share f that is not combined;
// * packets that the server's link dropped, and passes that workers sent again, in percent;
// * Jain's index of the jobs' goodput.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <vector>

#include "rdma_engine/sim/sharing_study.h"
#include "rdma_engine/transport/udp/stream_limits.h"

namespace {

using jaxina::sim::SharingCase;
using jaxina::sim::SharingFigures;

struct Control {
  const char* name;
  bool marks;
  jaxina::Nanoseconds standing;
};

void print_spread(std::vector<double> values, int decimals) {
  std::sort(values.begin(), values.end());
  std::printf("  %7.*f (%.*f - %.*f)", decimals, values[values.size() / 2], decimals, values.front(), decimals,
              values.back());
}

void measure(SharingCase what, const Control& control, std::uint64_t seeds) {
  what.marks = control.marks;
  what.standing = control.standing;
  std::vector<double> goodput, dropped, again, fairness;
  for (what.seed = 0; what.seed < seeds; ++what.seed) {
    // Without this, a job alone would have the same course with each seed: nothing else in it is random.
    what.delay = 80'000 + static_cast<jaxina::Nanoseconds>(3'000 * (what.seed % 16));
    const SharingFigures figures = jaxina::sim::study_sharing(what);
    if (!figures.failure.empty()) std::fprintf(stderr, "%s\n", figures.failure.c_str()), std::exit(1);
    goodput.push_back(figures.of_model);
    dropped.push_back(100 * figures.dropped);
    again.push_back(100 * figures.sent_again);
    fairness.push_back(jaxina::sim::jain_index(figures.job_share));
  }
  std::printf("%u  %u  %.2f  %-12s", what.jobs, what.workers, what.share_sent_on, control.name);
  print_spread(goodput, 3);
  print_spread(dropped, 3);
  print_spread(again, 2);
  print_spread(fairness, 3);
  std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t seeds = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 9;
  if (argc > 2 || seeds == 0) return std::fprintf(stderr, "usage: congestion_bench [SEEDS]\n"), 2;
  const Control controls[] = {{"nothing", false, std::numeric_limits<jaxina::Nanoseconds>::max()},
                              {"round trips", false, jaxina::udp::kSharedStanding},
                              {"marks", true, jaxina::udp::kSharedStanding}};
  std::printf("jobs, n, f, control; goodput / model; dropped in %%; sent again in %%; Jain's index\n");
  for (const std::uint32_t jobs : {1u, 2u, 4u}) {
    for (const std::uint32_t workers : {4u, 8u}) {
      for (const double share : {0.0, 0.5, 1.0}) {
        for (const Control& control : controls) {
          measure({.jobs = jobs, .workers = workers, .share_sent_on = share, .second_starts_at = 100'000'000}, control,
                  seeds);
        }
      }
    }
  }
}
