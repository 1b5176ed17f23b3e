// Measures in the simulator what lost packets cost a ring of reliable connections through a transparent switch, and
// through leaves and a spine (docs/netreduce.md). Every link loses packets, each way, also those between switches.
//   ring_loss_bench [SEEDS [SLOTS]]
// Each line has medians of SEEDS (5 by default) seeds: the time of a sum without loss, and how many times as long it
// takes with loss. Links carry as many packets per second as links of 200 Mbit/s carry packets of a block of 256
// elements. The tensor is as 8 MiB there.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "rdma_engine/sim/simulation.h"
#include "rdma_engine/transport/rc/reliable.h"

namespace {

using namespace jaxina::sim;

constexpr std::uint32_t kBlock = 28, kBlocks = 2;  // a message has 14 packets of words, and its check and exponents
constexpr std::size_t kElements = 8192 * (kRingMtu / 4);

struct Case {
  std::uint32_t workers = 4, racks = 1, slots = 7;
  double loss = 0;
};

Plan plan_of(const Case& what, std::uint64_t seed) {
  Plan plan{.seed = seed, .features = kRing | (what.racks > 1 ? kRacks : 0u)};
  plan.quiet_at = 100 * kSecond;
  plan.faults.loss = static_cast<std::uint32_t>(std::lround(what.loss * 65536));
  const LinkPlan link{.delay = 50 * kMicrosecond, .bytes_per_us = 2, .queue = 50 * kMillisecond};
  JobPlan job;
  job.shape = simulated_shape(what.workers, what.slots, kBlock, kBlocks);
  job.timer = jaxina::rc::worker_timer(what.slots);
  job.window = {.first = what.slots};
  job.ack_timeout = 14;
  job.links.assign(what.workers, link);
  job.collectives = 1;
  job.longest = kElements;
  job.ahead = 1;
  job.steady = true;
  plan.jobs = {job};
  plan.combining = {.racks = what.racks, .core = link};
  return plan;
}

double median_s(const Case& what, std::uint64_t seeds) {
  std::vector<double> found;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    const Outcome outcome = run(plan_of(what, seed), Random(seed), nullptr);
    if (!outcome.failure.empty()) std::fprintf(stderr, "%s\n", outcome.failure.c_str()), std::exit(1);
    found.push_back(static_cast<double>(outcome.virtual_time) * 1e-9);
  }
  std::sort(found.begin(), found.end());
  return found[found.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t seeds = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 5;
  const auto slots = static_cast<std::uint32_t>(argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 7);
  if (argc > 3 || seeds == 0 || slots == 0) return std::fprintf(stderr, "usage: ring_loss_bench [SEEDS [SLOTS]]\n"), 2;
  std::printf("workers, racks; s without loss; times as long with 0.1 %%, 0.5 %%\n");
  for (const Case& shape : {Case{4, 1}, Case{4, 2}, Case{8, 2}, Case{8, 4}}) {
    Case what = shape;
    what.slots = slots;
    const double whole = median_s(what, seeds);
    std::printf("%u %u  %.3f ", what.workers, what.racks, whole);
    for (const double loss : {0.001, 0.005}) {
      what.loss = loss;
      std::printf(" %.2f", median_s(what, seeds) / whole);
    }
    std::printf("\n");
  }
}
