#include "rdma_engine/sim/sharing_study.h"

#include <algorithm>
#include <cmath>

#include "rdma_engine/sim/simulation.h"

namespace jaxina::sim {
namespace {

constexpr Nanoseconds kMeasured = 400 * kMillisecond;
constexpr double kMeasuredUs = static_cast<double>(kMeasured) / static_cast<double>(kMicrosecond);
// Less than a pass's packet takes on a link.
constexpr Nanoseconds kPacketTime = 30 * kMicrosecond;
// As much larger than a pass's packet as 1,514 bytes are than 1,106, which is one of 256 elements.
constexpr std::uint32_t kTcpPacket = 256;
constexpr std::uint32_t kBlock = 8, kBlocks = 4, kRacks = 2;

LinkPlan link_plan(const SharingCase& what) { return {.delay = what.delay, .bytes_per_us = 4, .queue = what.queue}; }

// A rack's link to the core.
LinkPlan core_plan(const SharingCase& what) {
  LinkPlan core = link_plan(what);
  core.bytes_per_us = core.bytes_per_us * what.jobs * what.workers / kRacks / what.oversubscription;
  return core;
}

JobPlan job_plan(const SharingCase& what) {
  JobPlan job;
  job.shape = simulated_shape(what.workers, what.slots, kBlock, kBlocks);
  job.timer = {.minimum = 2 * kMillisecond, .reordering = 64};
  job.window = {.first = what.reserved ? 64 : 64 / what.workers, .standing = what.standing};
  job.links.assign(what.workers, link_plan(what));
  // One sum, because each begins with passes that have exponents only. It is more than the links carry until the end.
  job.collectives = 1;
  job.longest = std::size_t{kBlock} * kBlocks * static_cast<std::size_t>((what.settled + kMeasured) / kPacketTime);
  job.ahead = 1;
  job.steady = true;
  return job;
}

std::vector<Fault> pauses_of(const SharingCase& what) {
  constexpr std::uint32_t kTimes = 3;
  constexpr Nanoseconds kFirst = 20 * kMillisecond, kLast = 820 * kMillisecond;
  std::vector<Fault> pauses;
  Random random(what.seed);
  for (std::uint32_t i = 0; what.pauses > 0 && i < what.jobs * what.workers * kTimes; ++i) {
    pauses.push_back({.kind = FaultKind::kPause,
                      .at = random.range(kFirst, kLast),
                      .job = i / kTimes / what.workers,
                      .worker = i / kTimes % what.workers,
                      .duration = random.range(0, what.pauses)});
  }
  return pauses;
}

Plan plan_of(const SharingCase& what) {
  Plan plan{.seed = what.seed, .features = kSeveralJobs};
  plan.quiet_at = std::max(kSecond, what.second_starts_at + what.settled);
  plan.scheduled_faults = pauses_of(what);
  plan.faults.loss = static_cast<std::uint32_t>(std::lround(what.loss * 65536));
  plan.jobs.assign(what.jobs, job_plan(what));
  for (std::size_t job = 1; job < plan.jobs.size(); ++job) plan.jobs[job].starts_at = what.second_starts_at;
  const Nanoseconds begin = what.second_starts_at + what.settled;
  plan.looks = {begin, begin + kMeasured};
  if (what.tcp_stream) plan.tcp_stream = {.packet_bytes = kTcpPacket, .way_back = 2 * what.delay};
  if (what.oversubscription > 0) plan.combining = {.racks = kRacks, .core = core_plan(what)};
  if (what.reserved) return plan;
  plan.features |= kCombining | kServers | kCongestion;
  const LinkPlan link = link_plan(what);
  plan.combining.entries = what.entries;
  plan.combining.lifetime = 200 * kMillisecond;
  plan.combining.servers = what.servers;
  plan.combining.server_link = link;
  plan.combining.share_sent_on = static_cast<std::uint32_t>(std::lround(what.share_sent_on * 65536));
  plan.combining.first_rack_learns_at = what.first_rack_learns_at;
  if (what.marks) plan.combining.queues.bytes_per_second = link.bytes_per_us * 1e6;
  plan.combining.queues.threshold = what.threshold;
  return plan;
}

double ratio(double part, double whole) { return whole == 0 ? 0 : part / whole; }

}  // namespace

double jain_index(const std::vector<double>& shares) {
  double sum = 0, squares = 0;
  for (const double share : shares) {
    sum += share;
    squares += share * share;
  }
  return ratio(sum * sum, static_cast<double>(shares.size()) * squares);
}

SharingFigures study_sharing(const SharingCase& what) {
  const Plan plan = plan_of(what);
  const Outcome outcome = run(plan, Random(what.seed), nullptr);
  SharingFigures figures{.failure = outcome.failure, .job_share = {}};
  if (outcome.looks.size() != 2) {
    if (figures.failure.empty()) figures.failure = "the jobs ended before they were measured";
    return figures;
  }
  const Outcome::Look &begin = outcome.looks[0], &end = outcome.looks[1];
  const auto grown = [](std::uint64_t before, std::uint64_t now) { return static_cast<double>(now - before); };
  // How many packets of the mean size a link carries in this time.
  const auto capacity = [&](const LinkCounters& before, const LinkCounters& now) {
    const double bytes = plan.jobs[0].links[0].bytes_per_us * kMeasuredUs;
    return bytes * ratio(grown(before.sent, now.sent), grown(before.bytes, now.bytes));
  };
  double passes = 0, taken = 0, collisions = 0;
  for (std::size_t job = 0; job < what.jobs; ++job) {
    const auto at_switches = [&](Counter counter) {
      return grown(begin.at_switches[job][counter], end.at_switches[job][counter]);
    };
    figures.job_share.push_back(grown(begin.results[job], end.results[job]));
    passes += figures.job_share.back();
    taken += at_switches(Counter::kClaims) + at_switches(Counter::kJoins);
    collisions += at_switches(Counter::kCollisions);
  }
  for (double& share : figures.job_share) share = ratio(share, passes);
  figures.hits = ratio(taken, taken + collisions);
  figures.of_link = ratio(passes / what.jobs, capacity(begin.to_workers, end.to_workers));
  const double packets = passes * (1 + (what.workers - 1) * what.share_sent_on);
  figures.of_model = ratio(packets, what.servers * capacity(begin.to_servers, end.to_servers));
  figures.dropped =
      ratio(grown(begin.to_servers.lost, end.to_servers.lost), grown(begin.to_servers.sent, end.to_servers.sent));
  const LinkCounters &before = begin.to_first_worker, &now = end.to_first_worker;
  const double of_job =
      grown(before.bytes, now.bytes) * (1 - ratio(grown(before.lost, now.lost), grown(before.sent, now.sent)));
  const double of_tcp = grown(begin.tcp_bytes, end.tcp_bytes);
  figures.first_link = ratio(of_job + of_tcp, plan.jobs[0].links[0].bytes_per_us * kMeasuredUs);
  figures.tcp_share = ratio(of_tcp, of_job + of_tcp);
  const double again = grown(begin.retransmissions, end.retransmissions);
  figures.sent_again = ratio(again, passes * what.workers + again);
  return figures;
}

}  // namespace jaxina::sim
