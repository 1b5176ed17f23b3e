// Tests sums at the workers' servers with a switch on the way that combines updates, as in ATP.
#include <array>
#include <cmath>

#include "tests/native/combined_jobs.h"

namespace jaxina {
namespace {

using namespace testing;

TEST(UdpCombining, WithAmpleEntriesTheServersGetSums) {
  // With 3 workers and 2 threads, each server gets sums from both threads, and its results must go back to the right
  // one.
  for (const auto& [workers, threads] : {std::pair{4u, 1u}, std::pair{4u, 2u}, std::pair{3u, 2u}}) {
    const JobSpec job = job_of(workers);
    SoftwareSwitch combiner({.threads = threads, .entries = 256});
    const CombinedJobs jobs(job, combiner.ports());
    combiner.combine_job(jobs.at_switch());
    sum_exactly(job, jobs.workers());
    const Counters at_switch = combiner.statistics().jobs.at(job.job), at_servers = jobs.at_servers();
    EXPECT_GT(at_switch[Counter::kCombined], 0u);
    EXPECT_EQ(at_servers[Counter::kUpdates], workers * at_servers[Counter::kResults]);
    EXPECT_LT(jobs.at_servers(&SwitchCounters::sockets)[Counter::kPacketsReceived] * 10,
              at_servers[Counter::kResults] * 15);
    // Few passes are sent again, because workers wait for a processor. All others come as one sum.
    EXPECT_GT(at_switch[Counter::kCombined] * 10, at_servers[Counter::kResults] * 9);
    EXPECT_EQ(combiner.statistics().entries, threads == 1 ? 257u : 2 * 131u);
  }
}

TEST(UdpCombining, FewEntriesAndLossCostOnlyTime) {
  for (const std::uint32_t entries : {0u, 1u, 17u}) {
    SoftwareSwitch combiner({.loss = 0.02, .entries = entries});
    std::vector<std::jthread> running;
    for (const std::uint32_t id : {7u, 8u, 9u}) {
      running.emplace_back([&, id] {
        const JobSpec job = job_of(3, id);
        const CombinedJobs jobs(job, combiner.ports());
        combiner.combine_job(jobs.at_switch());
        std::vector<UdpMember> workers = jobs.workers();
        for (UdpMember& worker : workers) worker.udp.loss.share = 0.02;
        sum_exactly(job, workers);
        EXPECT_LE(combiner.statistics().entries_held, entries);
        combiner.remove_job(id);
      });
    }
    running.clear();
    EXPECT_EQ(combiner.statistics().entries_held, 0u);
  }
}

// Loopback is faster than these ports, however busy the machine is. So workers must hear of queues, and send less.
TEST(UdpCombining, MarksOfSlowPortsReduceTheWindows) {
  for (const double port_rate : {0.0, 1.0}) {
    const JobSpec job = job_of(3);
    SoftwareSwitch combiner({.threads = 2, .entries = 256, .port_rate = port_rate});
    const CombinedJobs jobs(job, combiner.ports());
    combiner.combine_job(jobs.at_switch());
    FloatSum sum(3, 200'000, 1);
    std::array<Counters, 3> at_workers;
    with_workers(jobs.workers(), [&](std::uint32_t w, Endpoint& endpoint) {
      sum.submit(w, endpoint);
      const Status status = run_to_end(endpoint);
      ASSERT_TRUE(status.ok()) << status.text();
      at_workers[w] = endpoint.statistics();
    });
    sum.expect_exact();
    EXPECT_EQ(combiner.statistics().jobs.at(job.job)[Counter::kMarked] > 20, port_rate > 0);
    for (const Counters& counters : at_workers) {
      EXPECT_EQ(counters[Counter::kMarked] > 20, port_rate > 0);
      if (port_rate > 0) {
        EXPECT_GT(counters[Counter::kWindowDecreases], 3u);
        EXPECT_LT(counters[Counter::kWindowDecreases], counters[Counter::kMarked]);
      }
    }
  }
}

TEST(UdpCombining, RefusesARateThatNoPortHas) {
  for (const double rate : {-1.0, 1e7, std::nan("")}) EXPECT_THROW(SoftwareSwitch({.port_rate = rate}), Error) << rate;
}

TEST(UdpCombining, StaticAndCombinedJobsShareASwitch) {
  SoftwareSwitch both({.entries = 64});
  const JobSpec combined = job_of(2, 7), fixed = job_of(2, 8);
  both.add_job(fixed);
  const CombinedJobs jobs(combined, both.ports());
  both.combine_job(jobs.at_switch());
  EXPECT_THROW(both.combine_job(jobs.at_switch()), Error);
  std::jthread other([&] { sum_exactly(fixed, configs_for(fixed, both.ports())); });
  sum_exactly(combined, jobs.workers());
  other.join();
  EXPECT_EQ(both.statistics().jobs.size(), 2u);
}

// The switch stops in the middle and starts again without the job, which is then told to it.
TEST(UdpCombining, ASwitchThatRestartsCostsOnlyTime) {
  const JobSpec job = job_of(3);
  auto combiner = std::make_unique<SoftwareSwitch>(SwitchConfig{.entries = 64});
  const std::vector<std::uint16_t> ports = combiner->ports();
  const CombinedJobs jobs(job, ports);
  combiner->combine_job(jobs.at_switch());
  Running running(job, jobs, jobs.workers(), 40);
  running.wait_for_sums(500);
  combiner.reset();
  running.wait_for_sums(500);
  combiner = std::make_unique<SoftwareSwitch>(SwitchConfig{.ports = ports, .entries = 64});
  running.wait_for_sums(500);
  combiner->combine_job(jobs.at_switch());
  running.wait();
  EXPECT_GT(combiner->statistics().jobs.at(job.job)[Counter::kCombined], 100u);
}

TEST(UdpCombining, RefusesPacketsThatAreTooLargeForItsEntries) {
  SoftwareSwitch combiner({.entries = 1});
  CombinedJobSpec large = CombinedJobs(job_of(2), combiner.ports()).at_switch();
  large.shape = JobShape({.devices = 2, .workers = 2, .slots = 1, .block_size = 256, .blocks_per_chunk = 16});
  try {
    combiner.combine_job(large);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.status().code, ErrorCode::kJobRejected);
    EXPECT_NE(error.status().message.find("9216"), std::string::npos) << error.status().message;
  }
}

}  // namespace
}  // namespace jaxina
