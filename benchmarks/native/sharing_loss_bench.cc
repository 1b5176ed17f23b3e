// Measures in the simulator what lost packets cost a job of `atp`, beside the same job at a switch that sums in slots
// that are its own (docs/atp.md).
//   sharing_loss_bench [SEEDS]
// Each line has medians of SEEDS (5 by default) seeds: the goodput, as a share of a worker's link, of reserved slots
// and of `atp`, which has a host as the server and marks; how many times as long each takes as without loss; and the
// ratio of the two.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "rdma_engine/sim/sharing_study.h"

namespace {

using jaxina::sim::SharingCase;
using jaxina::sim::SharingFigures;

double goodput(SharingCase what, bool reserved, std::uint64_t seeds) {
  what.reserved = reserved;
  std::vector<double> found;
  for (what.seed = 0; what.seed < seeds; ++what.seed) {
    const SharingFigures figures = jaxina::sim::study_sharing(what);
    if (!figures.failure.empty()) std::fprintf(stderr, "%s\n", figures.failure.c_str()), std::exit(1);
    found.push_back(figures.of_link);
  }
  std::sort(found.begin(), found.end());
  return found[found.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t seeds = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 5;
  if (argc > 2 || seeds == 0) return std::fprintf(stderr, "usage: sharing_loss_bench [SEEDS]\n"), 2;
  std::printf("n, loss in %%; goodput reserved, atp; times as long reserved, atp; ratio\n");
  for (const std::uint32_t workers : {4u, 8u}) {
    SharingCase what{.workers = workers};
    const double reserved = goodput(what, true, seeds), atp = goodput(what, false, seeds);
    for (const double loss : {0.001, 0.01}) {
      what.loss = loss;
      const double reserved_now = goodput(what, true, seeds), atp_now = goodput(what, false, seeds);
      const double longer = reserved / reserved_now, atp_longer = atp / atp_now;
      std::printf("%u  %.1f  %.3f %.3f  %.3f %.3f  %.3f\n", workers, 100 * loss, reserved_now, atp_now, longer,
                  atp_longer, atp_longer / longer);
    }
  }
}
