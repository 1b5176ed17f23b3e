// Measures in the simulator what a job gets beside a TCP stream to one of its workers (docs/atp.md).
//   tcp_bench [SEEDS]
// A switch combines a part of the job's passes on their way to a server, and marks packets or not. Each line has the
// median of SEEDS (3 by default) seeds, and the least and the most:
// * the used share of the link to the worker, and the job's part of that;
// * the job's share of the link without the stream.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "rdma_engine/sim/sharing_study.h"

namespace {

using jaxina::sim::SharingCase;
using jaxina::sim::SharingFigures;

void print_spread(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  std::printf("  %.2f (%.2f - %.2f)", values[values.size() / 2], values.front(), values.back());
}

SharingFigures study(const SharingCase& what) {
  SharingFigures figures = jaxina::sim::study_sharing(what);
  if (!figures.failure.empty()) std::fprintf(stderr, "%s\n", figures.failure.c_str()), std::exit(1);
  return figures;
}

void measure(SharingCase what, std::uint64_t seeds) {
  std::vector<double> used, part, alone;
  for (what.seed = 0; what.seed < seeds; ++what.seed) {
    what.tcp_stream = true;
    const SharingFigures beside = study(what);
    used.push_back(beside.first_link);
    part.push_back(1 - beside.tcp_share);
    what.tcp_stream = false;
    alone.push_back(study(what).of_link);
  }
  std::printf("%u  %2d  %.1f  %-5s", what.workers, static_cast<int>(what.queue / 1'000'000), what.share_sent_on,
              what.marks ? "yes" : "no");
  print_spread(used);
  print_spread(part);
  print_spread(alone);
  std::printf("\n");
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t seeds = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 3;
  if (argc > 2 || seeds == 0) return std::fprintf(stderr, "usage: tcp_bench [SEEDS]\n"), 2;
  std::printf("n, queue in ms, f, marks; used share of the link; the job's part; its share of the link alone\n");
  for (const std::uint32_t workers : {4u, 8u}) {
    for (const jaxina::Nanoseconds queue : {5'000'000, 10'000'000, 20'000'000}) {
      for (const double share : {0.0, 0.5}) {
        for (const bool marks : {false, true}) {
          measure(
              {.workers = workers, .share_sent_on = share, .marks = marks, .queue = queue, .settled = 2'000'000'000},
              seeds);
        }
      }
    }
  }
}
