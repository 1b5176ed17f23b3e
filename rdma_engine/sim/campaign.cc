#include "rdma_engine/sim/campaign.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <mutex>
#include <thread>

namespace jaxina::sim {
namespace {

constexpr std::size_t kMostFailures = 10;

double thread_seconds() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

void add(Outcome& total, const Outcome& one) {
  total.log_hash += one.log_hash;
  total.virtual_time += one.virtual_time;
  total.network.sent += one.network.sent;
  total.network.delivered += one.network.delivered;
  total.network.lost += one.network.lost;
  total.network.duplicated += one.network.duplicated;
  total.network.reordered += one.network.reordered;
  total.network.overflowed += one.network.overflowed;
  total.network.corrupted += one.network.corrupted;
  total.hostile += one.hostile;
  total.passes += one.passes;
  total.retransmissions += one.retransmissions;
  total.sums += one.sums;
  total.jobs_finished += one.jobs_finished;
  total.jobs_ended_early += one.jobs_ended_early;
}

}  // namespace

CampaignResult run_campaign(const Scenario& scenario, std::uint64_t begin, std::uint64_t end, unsigned threads,
                            std::atomic<std::uint64_t>* done, const std::atomic<bool>* stop) {
  const auto start = std::chrono::steady_clock::now();
  CampaignResult result;
  std::mutex mutex;
  std::atomic<std::uint64_t> next = begin;
  std::atomic<bool> enough = false;
  const auto work = [&] {
    const double core_start = thread_seconds();
    Outcome total;
    std::uint64_t seeds = 0;
    for (std::uint64_t seed; !enough && !(stop != nullptr && *stop) && (seed = next++) < end;) {
      const Outcome outcome = simulate(scenario, seed);
      add(total, outcome);
      ++seeds;
      if (done != nullptr) ++*done;
      if (outcome.failure.empty()) continue;
      const std::lock_guard guard(mutex);
      result.failures.push_back({seed, outcome.failure});
      enough = result.failures.size() >= kMostFailures;
    }
    const std::lock_guard guard(mutex);
    add(result.total, total);
    result.seeds += seeds;
    result.core_seconds += thread_seconds() - core_start;
  };
  std::vector<std::jthread> pool;
  for (unsigned i = 1; i < threads; ++i) pool.emplace_back(work);
  work();
  pool.clear();
  std::sort(result.failures.begin(), result.failures.end(),
            [](const Failure& a, const Failure& b) { return a.seed < b.seed; });
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace jaxina::sim
