// Tests sums at the workers' servers with a switch on the way that combines updates, as in ATP.
#include <atomic>
#include <thread>

#include "rdma_engine/net/socket_address.h"
#include "tests/native/udp_fixture.h"

namespace jaxina {
namespace {

using namespace testing;

constexpr const char* kHost = "127.0.0.1";

Address at(std::uint16_t port) { return net::resolve(kHost, port, ErrorCode::kInvalidArgument); }

// The servers of a job's workers, and how a switch and the workers reach them.
class CombinedJobs {
 public:
  CombinedJobs(const JobSpec& job, const std::vector<std::uint16_t>& switch_ports)
      : job_(job), switch_ports_(switch_ports) {
    CombiningSwitches switches{.groups = {everybody()}, .addresses = {}};
    for (const std::uint16_t port : switch_ports) switches.addresses.push_back(at(port));
    for (std::uint32_t w = 0; w < job.shape.workers(); ++w) {
      servers_.push_back(std::make_unique<SoftwareSwitch>(SwitchConfig{}));
      servers_.back()->add_job(job, {.index = w, .of = job.shape.workers()}, switches);
    }
  }

  CombinedJobSpec at_switch() const {
    CombinedJobSpec spec{.job = job_.job, .secret = job_.secret, .shape = job_.shape};
    for (std::uint16_t w = 0; w < job_.shape.workers(); ++w) {
      spec.children.push_back({.sender = w});
      insert(spec.children.back().workers, w);
    }
    for (const auto& server : servers_) spec.upstream.push_back(at(server->ports().front()));
    return spec;
  }
  std::vector<UdpMember> workers() const {
    std::vector<UdpMember> configs = configs_for(job_, {});
    for (UdpMember& config : configs) {
      config.udp.at_workers = true;
      for (const auto& server : servers_) config.udp.addresses.push_back({kHost, server->ports().front()});
      config.udp.switches = ports_of(kHost, switch_ports_);
    }
    return configs;
  }
  Counters at_servers() const {
    Counters sum;
    for (const auto& server : servers_) sum += server->statistics().jobs.at(job_.job);
    return sum;
  }

 private:
  WorkerSet everybody() const {
    WorkerSet set{};
    for (std::uint32_t w = 0; w < job_.shape.workers(); ++w) insert(set, w);
    return set;
  }
  JobSpec job_;
  std::vector<std::uint16_t> switch_ports_;
  std::vector<std::unique_ptr<SoftwareSwitch>> servers_;
};

TEST(UdpCombining, WithAmpleEntriesTheServersGetSums) {
  for (const std::uint32_t threads : {1u, 2u}) {
    const JobSpec job = job_of(4);
    SoftwareSwitch combiner({.threads = threads, .entries = 256});
    const CombinedJobs jobs(job, combiner.ports());
    combiner.combine_job(jobs.at_switch());
    sum_exactly(job, jobs.workers());
    const Counters at_switch = combiner.statistics().jobs.at(job.job), at_servers = jobs.at_servers();
    EXPECT_GT(at_switch[Counter::kCombined], 0u);
    EXPECT_EQ(at_servers[Counter::kUpdates], 4 * at_servers[Counter::kResults]);
    // Few passes are sent again, because workers wait for a processor. All others come as one sum.
    EXPECT_GT(at_switch[Counter::kCombined] * 10, at_servers[Counter::kResults] * 9);
    EXPECT_EQ(combiner.statistics().entries, 256u);
  }
}

TEST(UdpCombining, FewEntriesAndLossCostOnlyTime) {
  for (const std::uint32_t entries : {0u, 1u, 16u}) {
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
  std::atomic<bool> done = false;
  std::jthread working([&] {
    sum_exactly(job, jobs.workers(), 40);
    done = true;
  });
  const auto wait_for_sums = [&](std::uint64_t more) {
    const std::uint64_t target = jobs.at_servers()[Counter::kResults] + more;
    while (!done && jobs.at_servers()[Counter::kResults] < target) std::this_thread::yield();
  };
  wait_for_sums(500);
  combiner.reset();
  wait_for_sums(500);
  combiner = std::make_unique<SoftwareSwitch>(SwitchConfig{.ports = ports, .entries = 64});
  wait_for_sums(500);
  combiner->combine_job(jobs.at_switch());
  working.join();
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
