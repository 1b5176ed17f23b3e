#include "rdma_engine/sim/congestion_study.h"

#include <algorithm>
#include <cmath>

#include "rdma_engine/sim/simulation.h"

namespace jaxina::sim {
namespace {

constexpr Nanoseconds kSettled = 200 * kMillisecond, kMeasured = 400 * kMillisecond;
constexpr std::uint32_t kBlock = 8, kBlocks = 4;
constexpr LinkPlan kLink{.delay = 100 * kMicrosecond, .bytes_per_us = 4, .queue = 5 * kMillisecond};

JobPlan job_plan(const CongestionCase& what) {
  JobPlan job;
  job.shape = simulated_shape(what.workers, 256, kBlock, kBlocks);
  job.timer = {.minimum = 2 * kMillisecond, .reordering = 64};
  job.window = {.first = 64 / what.workers, .standing = what.standing};
  job.links.assign(what.workers, kLink);
  // One sum, because each begins with passes that have exponents only. It is more than the links carry until the end.
  job.collectives = 1;
  job.longest = std::size_t{kBlock} * kBlocks * 20'000;
  job.ahead = 1;
  job.steady = true;
  return job;
}

Plan plan_of(const CongestionCase& what) {
  Plan plan{.seed = what.seed, .features = kCombining | kServers | kSeveralJobs | kCongestion};
  plan.quiet_at = kSecond;
  plan.jobs.assign(what.jobs, job_plan(what));
  for (std::size_t job = 1; job < plan.jobs.size(); ++job) plan.jobs[job].starts_at = what.second_starts_at;
  plan.combining = {.entries = 4096, .lifetime = 200 * kMillisecond, .servers = 1, .server_link = kLink};
  plan.combining.share_sent_on = static_cast<std::uint32_t>(std::lround(what.share_sent_on * 65536));
  plan.combining.queues.threshold = what.threshold;
  if (what.marks) plan.combining.queues.bytes_per_second = kLink.bytes_per_us * 1e6;
  plan.looks = {what.second_starts_at + kSettled, what.second_starts_at + kSettled + kMeasured};
  return plan;
}

}  // namespace

double jain_index(const std::vector<double>& shares) {
  double sum = 0, squares = 0;
  for (const double share : shares) {
    sum += share;
    squares += share * share;
  }
  return sum * sum / (static_cast<double>(shares.size()) * squares);
}

CongestionFigures study_congestion(const CongestionCase& what) {
  const Plan plan = plan_of(what);
  const Outcome outcome = run(plan, Random(what.seed), nullptr);
  CongestionFigures figures{.failure = outcome.failure, .job_share = {}};
  if (outcome.looks.size() != 2) {
    if (figures.failure.empty()) figures.failure = "the jobs ended before they were measured";
    return figures;
  }
  const Outcome::Look &begin = outcome.looks[0], &end = outcome.looks[1];
  double passes = 0;
  for (std::size_t job = 0; job < what.jobs; ++job) {
    figures.job_share.push_back(static_cast<double>(end.results[job] - begin.results[job]));
    passes += figures.job_share.back();
  }
  for (double& share : figures.job_share) share /= std::max(passes, 1.0);
  const auto sent = static_cast<double>(end.to_servers.sent - begin.to_servers.sent);
  const auto bytes = static_cast<double>(end.to_servers.bytes - begin.to_servers.bytes);
  const double capacity = kLink.bytes_per_us * static_cast<double>(kMeasured / kMicrosecond);  // in bytes
  const double packets = passes * (1 + (what.workers - 1) * what.share_sent_on);
  figures.of_model = packets * bytes / sent / capacity;
  figures.dropped = static_cast<double>(end.to_servers.lost - begin.to_servers.lost) / sent;
  figures.sent_again = static_cast<double>(end.retransmissions - begin.retransmissions) /
                       (passes * what.workers + static_cast<double>(end.retransmissions - begin.retransmissions));
  return figures;
}

}  // namespace jaxina::sim
