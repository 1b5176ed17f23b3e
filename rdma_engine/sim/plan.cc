#include "rdma_engine/sim/plan.h"

#include <algorithm>

#include "rdma_engine/transport/rc/reliable.h"

namespace jaxina::sim {
namespace {

// In the swarm, most features occur in every second seed. Those that end or dominate a run are rarer.
std::uint32_t draw_features(Random& random) {
  std::uint32_t features = static_cast<std::uint32_t>(random.next()) & kSwarm;
  if (!random.one_in(4)) features &= ~kCrash;
  if (!random.one_in(4)) features &= ~kWipe;
  if (!random.one_in(32)) features &= ~kManyWorkers;
  return features;
}

std::uint32_t percent(Random& random, std::uint32_t most) {
  return static_cast<std::uint32_t>(random.below(std::uint64_t{most} * 65536 / 100 + 1));
}

LinkFaults draw_link_faults(std::uint32_t features, Random& random) {
  LinkFaults faults;
  if (features & kLoss) faults.loss = percent(random, 30);
  if (features & kDuplication) faults.duplication = percent(random, 50);
  if (features & kReordering) faults.reordering = percent(random, 50);
  if (features & kCorruption) faults.corruption = percent(random, 10);
  faults.max_extra_delay = random.log_range(kMicrosecond, 5 * kMillisecond);
  return faults;
}

// Parameters and times like those of udp. The first windows of all workers together exceed the receive buffer.
void make_incast(JobPlan& job, Random& random) {
  const auto workers = static_cast<std::uint32_t>(random.range(2, 16));
  job.shape = simulated_shape(workers, static_cast<std::uint32_t>(random.range(64, 256)), 1, 1);
  job.timer = {.minimum = 2 * kMillisecond, .reordering = 64};
  job.window = {.first = 64, .standing = 8 * kMillisecond};
  job.collectives = 2;
  job.longest = std::size_t{20} * job.shape.slots();
  job.links.assign(workers, {.delay = 10 * kMicrosecond, .bytes_per_us = 1'000, .queue = 10 * kMillisecond});
}

// Many passes of few slots, in less time than packets may be late. So late copies of earlier passes overwrite what was
// written for a newer pass while the worker is paused.
void make_late_copies(JobPlan& job, Random& random) {
  job.shape = simulated_shape(job.shape.workers(), static_cast<std::uint32_t>(random.range(1, 2)),
                              job.shape.block_size(), job.shape.blocks_per_chunk());
  job.longest = std::size_t{50} * job.shape.words_per_chunk() * job.shape.slots();
  job.collectives = 3;
  job.links.assign(job.shape.workers(),
                   {.delay = random.range(500, 5'000), .bytes_per_us = 10'000, .queue = kMillisecond});
}

// Parameters and times like those of udp on links of some hundred megabits per second. All links have the same rate, so
// those to servers are too narrow: they carry several packets of a pass that is not combined.
void make_congestion(Plan& plan, Random& random) {
  const LinkPlan link{.delay = random.range(20, 100) * kMicrosecond,
                      .bytes_per_us = static_cast<std::uint32_t>(random.range(1, 4)),
                      .queue = random.range(3, 10) * kMillisecond};
  for (JobPlan& job : plan.jobs) {
    job.shape = simulated_shape(static_cast<std::uint32_t>(random.range(2, 5)),
                                static_cast<std::uint32_t>(random.range(32, 128)), 1, 1);
    job.timer = {.minimum = 2 * kMillisecond, .reordering = 64};
    job.window = {.first = 64 / job.shape.workers(), .standing = 4 * kMillisecond};
    job.collectives = 3;
    job.longest = std::size_t{10} * job.shape.slots();
    job.max_compute = 0;
    job.links.assign(job.shape.workers(), link);
  }
  CombiningPlan& combining = plan.combining;
  combining.racks = static_cast<std::uint32_t>(random.range(1, 2));
  combining.servers = static_cast<std::uint32_t>(random.range(1, 2));
  combining.core = combining.server_link = link;
  combining.entries = static_cast<std::uint32_t>(random.range(16, 512));
  combining.lifetime = 200 * kMillisecond;
  combining.share_sent_on = static_cast<std::uint32_t>(random.range(0, 4)) << 14;
  combining.queues = {.bytes_per_second = link.bytes_per_us * 1e6,
                      .threshold = random.range(200, 2'000) * kMicrosecond};
}

// Connections repair losses, so workers do not. All slots' messages must fit what a connection keeps unacknowledged.
void make_ring(JobPlan& job, std::uint32_t features, Random& random) {
  const auto workers = static_cast<std::uint32_t>(random.range(2, 8));
  const auto blocks = job.shape.blocks_per_chunk();
  const std::size_t packets = (4 * job.shape.words_per_chunk() + 16) / kRingMtu + 1;
  const auto most = static_cast<std::int64_t>(std::min<std::size_t>(12, 128 / packets));
  job.shape =
      simulated_shape(workers, static_cast<std::uint32_t>(random.range(1, most)), job.shape.block_size(), blocks);
  job.timer = rc::worker_timer(job.shape.slots());
  job.window = {.first = job.shape.slots()};
  // 0.5 to 8.4 ms. If a switch is told its rings again, connections send until the collective's timeout, so less often.
  job.ack_timeout = static_cast<std::uint8_t>(random.range(7, 11) + (features & kWipe && !(features & kRacks) ? 4 : 0));
  job.collectives = std::min(job.collectives, 4u);
  job.links.assign(workers, job.links.front());
}

void make_crowd(JobPlan& job, Random& random) {
  const auto workers = static_cast<std::uint32_t>(random.range(65, 256));
  job.shape = simulated_shape(workers, job.shape.slots(), job.shape.block_size(), job.shape.blocks_per_chunk());
  job.links.assign(workers, job.links.front());
  job.collectives = 1;
}

LinkPlan draw_link(Random& random) {
  return {.delay = random.log_range(500, 100 * kMicrosecond),
          .bytes_per_us = static_cast<std::uint32_t>(random.log_range(100, 12'500)),
          .queue = random.log_range(50 * kMicrosecond, 10 * kMillisecond)};
}

JobPlan draw_job(std::uint32_t features, Random& random) {
  JobPlan job;
  const bool many = features & kManyWorkers;
  const auto workers = static_cast<std::uint32_t>(many ? random.range(9, 64) : random.range(1, 8));
  const auto slots = static_cast<std::uint32_t>(random.one_in(3) ? 1 : random.range(1, 16));
  auto block_size = static_cast<std::uint32_t>(random.range(1, 8));
  if (features & kNarrow) block_size = (block_size + 3) / 4 * 4;
  job.shape = simulated_shape(workers, slots, block_size, static_cast<std::uint32_t>(random.range(1, 4)));
  // The limits may be close to the round trip, or far below it: early retransmissions are what causes stale packets.
  job.timer.minimum = random.log_range(5 * kMicrosecond, kMillisecond);
  job.timer.maximum = random.log_range(kMillisecond, 20 * kMillisecond);
  job.timer.initial = random.log_range(job.timer.minimum, job.timer.maximum);
  job.timer.reordering = static_cast<std::uint32_t>(random.range(1, 10));  // small, because the pools are small too
  job.window = {.first = static_cast<std::uint32_t>(random.range(1, job.shape.slots())),
                .standing = random.log_range(5 * kMicrosecond, 5 * kMillisecond)};
  job.collectives = static_cast<std::uint32_t>(random.range(1, many ? 3 : 10));
  job.ahead = static_cast<std::uint32_t>(random.range(1, 4));
  job.max_compute = random.one_in(2) ? 0 : random.log_range(kMicrosecond, 500 * kMicrosecond);
  job.links.assign(job.shape.workers(), draw_link(random));
  job.longest = std::min<std::size_t>(3 * std::size_t{job.shape.words_per_chunk()} * job.shape.slots(), 200);
  job.narrow = features & kNarrow;
  if (features & kIncast) make_incast(job, random);
  if (features & kLateCopies) make_late_copies(job, random);
  if (features & kMostWorkers) make_crowd(job, random);
  if (features & kRing) make_ring(job, features, random);
  if (features & kSlowWorkers) {
    LinkPlan& slow = job.links[random.below(job.shape.workers())];
    slow.bytes_per_us = static_cast<std::uint32_t>(random.log_range(10, 100));
    slow.delay = random.log_range(10 * kMicrosecond, 500 * kMicrosecond);
    slow.queue = 10 * kMillisecond;
  }
  job.restarts = true;
  job.keeps_id = random.one_in(2);
  return job;
}

// Often there are too few entries, and lifetimes that are too short: both must cost only time.
CombiningPlan draw_combining(const Plan& plan, Random& random) {
  CombiningPlan combining;
  combining.entries = static_cast<std::uint32_t>(random.one_in(8) ? 0 : random.log_range(1, 64));
  combining.lifetime = random.log_range(20 * kMicrosecond, 100 * kMillisecond);
  combining.racks = plan.features & kRacks ? 2 : 1;
  combining.core = plan.jobs.front().links.front();
  if (plan.features & kServers) {
    combining.racks = static_cast<std::uint32_t>(random.range(1, 2));
    combining.servers = static_cast<std::uint32_t>(random.range(1, 4));
    combining.server_link = draw_link(random);
  }
  return combining;
}

}  // namespace

Plan draw_plan(const Scenario& scenario, std::uint64_t seed, Random& random) {
  Plan plan;
  plan.seed = seed;
  plan.features = scenario.features == kSwarm ? draw_features(random) : scenario.features;
  plan.faults = draw_link_faults(plan.features, random);
  if (plan.features & kLateCopies) plan.faults.max_extra_delay = random.log_range(100 * kMicrosecond, kMillisecond);
  plan.quiet_at = random.log_range(kMillisecond, 50 * kMillisecond);
  plan.detection_delay = random.log_range(100 * kMicrosecond, 100 * kMillisecond);
  const auto jobs = plan.features & kSeveralJobs ? random.range(2, 3) : 1;
  for (int j = 0; j < jobs; ++j) plan.jobs.push_back(draw_job(plan.features, random));
  if (plan.features & kIncast) {
    plan.ingress.room = static_cast<std::uint32_t>(random.range(64, 256));
    plan.ingress.service = random.range(500, 2 * kMicrosecond);
  }

  if (plan.features & kCombining) plan.combining = draw_combining(plan, random);
  if (plan.features & kCongestion) make_congestion(plan, random);
  const bool is_racked_ring = (plan.features & kRing) && (plan.features & kRacks);
  if (is_racked_ring) {
    plan.combining.racks = static_cast<std::uint32_t>(random.range(2, 3));
    plan.combining.core = draw_link(random);
  }

  const auto schedule_fault = [&](FaultKind kind, Nanoseconds longest) {
    Fault fault{.kind = kind};
    // A ring begins with probes. A switch is to forget it later, too.
    const Nanoseconds soon =
        (plan.features & kRing) && kind == FaultKind::kWipe ? plan.quiet_at / 2 : 10 * kMicrosecond;
    fault.at = random.range(0, random.log_range(soon, plan.quiet_at));
    fault.job = static_cast<std::uint32_t>(random.below(plan.jobs.size()));
    fault.worker = static_cast<std::uint32_t>(random.below(plan.jobs[fault.job].shape.workers()));
    fault.duration = random.log_range(kMicrosecond, longest);
    fault.drops = random.one_in(2);
    fault.forgets_jobs = random.one_in(2) || is_racked_ring;
    plan.scheduled_faults.push_back(fault);
  };
  if (plan.features & kClogging) {
    for (auto left = random.range(1, 6); left > 0; --left) schedule_fault(FaultKind::kClog, 10 * kMillisecond);
  }
  if (plan.features & kPauses) {
    for (auto left = random.range(1, 6); left > 0; --left) schedule_fault(FaultKind::kPause, 30 * kMillisecond);
  }
  if (plan.features & kLateCopies) {
    for (int left = 100; left > 0; --left) schedule_fault(FaultKind::kPause, 200 * kMicrosecond);
  }
  if (plan.features & kCrash) schedule_fault(FaultKind::kCrash, kMillisecond);
  if (plan.features & kWipe) {
    for (int left = is_racked_ring ? 5 : 1; left > 0; --left) schedule_fault(FaultKind::kWipe, 10 * kMillisecond);
  }
  if (plan.features & kHostile) {
    plan.hostile_packets = static_cast<std::uint32_t>(random.log_range(10, 1000));
    plan.hostile_interval = random.log_range(500, 50 * kMicrosecond);
  }
  return plan;
}

std::string to_string(const Plan& plan) {
  const auto share = [](std::uint32_t value) { return std::to_string(value * 100 / 65536) + " %"; };
  std::string text = "seed " + std::to_string(plan.seed) + ": loss " + share(plan.faults.loss) + ", duplication " +
                     share(plan.faults.duplication) + ", reordering " + share(plan.faults.reordering) + " (up to " +
                     std::to_string(plan.faults.max_extra_delay / kMicrosecond) + " us), corruption " +
                     share(plan.faults.corruption) + ", faults stop at " +
                     std::to_string(plan.quiet_at / kMicrosecond) + " us, " +
                     std::to_string(plan.scheduled_faults.size()) + " scheduled faults, " +
                     std::to_string(plan.hostile_packets) + " hostile packets\n";
  for (std::size_t j = 0; j < plan.jobs.size(); ++j) {
    const JobPlan& job = plan.jobs[j];
    text += "  job " + std::to_string(j) + ": " + std::to_string(job.shape.workers()) + " workers, " +
            std::to_string(job.shape.slots()) + " slots, chunks of " + std::to_string(job.shape.blocks_per_chunk()) +
            " blocks of " + std::to_string(job.shape.block_size()) + " words, " + std::to_string(job.collectives) +
            " collectives, link delay " + std::to_string(job.links[0].delay) + " ns, retransmission after " +
            std::to_string(job.timer.minimum / kMicrosecond) + " to " +
            std::to_string(job.timer.maximum / kMicrosecond) + " us\n";
  }
  return text;
}

}  // namespace jaxina::sim
