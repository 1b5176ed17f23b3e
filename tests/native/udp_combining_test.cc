// Tests sums at the workers' servers with a switch on the way that combines updates, as in ATP.
#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "rdma_engine/base/narrow.h"
#include "rdma_engine/net/socket_address.h"
#include "tests/native/udp_fixture.h"

namespace jaxina {
namespace {

using namespace testing;

constexpr const char* kHost = "127.0.0.1";

Address at(std::uint16_t port) { return net::resolve(kHost, port, ErrorCode::kInvalidArgument); }

WorkerSet set_of(const std::vector<std::uint16_t>& workers) {
  WorkerSet set{};
  for (const std::uint16_t worker : workers) insert(set, worker);
  return set;
}

std::vector<std::uint16_t> everybody(const JobSpec& job) {
  std::vector<std::uint16_t> workers;
  for (std::uint32_t w = 0; w < job.shape.workers(); ++w) workers.push_back(narrow<std::uint16_t>(w));
  return workers;
}

std::vector<Child> each_of(const std::vector<std::uint16_t>& workers) {
  std::vector<Child> children;
  for (const std::uint16_t worker : workers) children.push_back({.sender = worker, .workers = set_of({worker})});
  return children;
}

// The servers of a job's workers, and how switches and the workers reach them. `groups` may come as one sum, from
// `switch_ports`.
class CombinedJobs {
 public:
  CombinedJobs(const JobSpec& job, const std::vector<std::uint16_t>& switch_ports, std::vector<WorkerSet> groups)
      : job_(job), switch_ports_(switch_ports) {
    CombiningSwitches switches{.groups = std::move(groups), .addresses = {}};
    for (const std::uint16_t port : switch_ports) switches.addresses.push_back(at(port));
    for (std::uint32_t w = 0; w < job.shape.workers(); ++w) {
      servers_.push_back(std::make_unique<SoftwareSwitch>(SwitchConfig{}));
      servers_.back()->add_job(job, {.index = w, .of = job.shape.workers()}, switches);
    }
  }
  CombinedJobs(const JobSpec& job, const std::vector<std::uint16_t>& switch_ports)
      : CombinedJobs(job, switch_ports, {set_of(everybody(job))}) {}

  CombinedJobSpec at_switch() const {
    CombinedJobSpec spec{.job = job_.job, .secret = job_.secret, .shape = job_.shape};
    spec.children = each_of(everybody(job_));
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
  std::uint64_t packets_at_servers() const {
    std::uint64_t packets = 0;
    for (const auto& server : servers_) packets += server->statistics().sockets[Counter::kPacketsReceived];
    return packets;
  }

 private:
  JobSpec job_;
  std::vector<std::uint16_t> switch_ports_;
  std::vector<std::unique_ptr<SoftwareSwitch>> servers_;
};

// A job that sums on a thread of its own, until the end of its rounds.
class Running {
 public:
  Running(const JobSpec& job, const CombinedJobs& jobs, std::vector<UdpMember> workers, int rounds)
      : jobs_(jobs), thread_([this, job, workers = std::move(workers), rounds] {
          sum_exactly(job, workers, rounds);
          done_ = true;
        }) {}

  void wait_for_sums(std::uint64_t more) const {
    const std::uint64_t target = jobs_.at_servers()[Counter::kResults] + more;
    while (!done_ && jobs_.at_servers()[Counter::kResults] < target) std::this_thread::yield();
  }
  void wait() { thread_.join(); }

 private:
  const CombinedJobs& jobs_;
  std::atomic<bool> done_ = false;
  std::jthread thread_;
};

// A job's workers in racks with a switch each, and a core switch that combines the racks' sums.
class Racks {
 public:
  Racks(const JobSpec& job, const std::vector<std::vector<std::uint16_t>>& racks, const SwitchConfig& config)
      : job_(job), racks_(racks), core_(config), jobs_(job, core_.ports(), groups()) {
    CombinedJobSpec leaf = jobs_.at_switch();
    leaf.upstream.clear();
    for (const std::uint16_t port : core_.ports()) leaf.upstream.push_back(at(port));
    for (std::size_t rack = 0; rack < racks.size(); ++rack) {
      leaf.group = narrow<std::uint32_t>(rack);
      leaf.children = each_of(racks[rack]);
      leaves_.push_back(std::make_unique<SoftwareSwitch>(config));
      leaves_.back()->combine_job(leaf);
    }
    begin_at_core();
  }

  void begin_at_core() {
    CombinedJobSpec spec = jobs_.at_switch();
    spec.group = narrow<std::uint32_t>(racks_.size());
    spec.children.clear();
    for (std::size_t rack = 0; rack < racks_.size(); ++rack) {
      const auto& workers = racks_[rack];
      const std::size_t sender = workers.size() == 1 ? workers.front() : wire::kFirstGroup + rack;
      spec.children.push_back({.sender = narrow<std::uint16_t>(sender), .workers = set_of(workers)});
    }
    core_.combine_job(spec);
  }
  void end_at_core() { core_.remove_job(job_.job); }

  std::vector<UdpMember> workers() const {
    std::vector<UdpMember> configs = jobs_.workers();
    for (std::size_t rack = 0; rack < racks_.size(); ++rack) {
      for (const std::uint16_t w : racks_[rack]) configs[w].udp.switches = ports_of(kHost, leaves_[rack]->ports());
    }
    return configs;
  }
  const CombinedJobs& jobs() const { return jobs_; }
  Counters at_core() { return core_.statistics().jobs.at(job_.job); }
  Counters at_leaf(std::size_t rack) { return leaves_[rack]->statistics().jobs.at(job_.job); }

 private:
  std::vector<WorkerSet> groups() const {
    std::vector<WorkerSet> groups;
    for (const auto& rack : racks_) groups.push_back(set_of(rack));
    groups.push_back(set_of(everybody(job_)));
    return groups;
  }

  JobSpec job_;
  std::vector<std::vector<std::uint16_t>> racks_;
  SoftwareSwitch core_;
  CombinedJobs jobs_;
  std::vector<std::unique_ptr<SoftwareSwitch>> leaves_;
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

TEST(UdpCombining, RackSwitchesSendSumsAndTheCoreCombinesThem) {
  for (const std::uint32_t threads : {1u, 2u}) {
    const JobSpec job = job_of(4);
    Racks racks(job, {{0, 2}, {1, 3}}, {.threads = threads, .entries = 256});
    sum_exactly(job, racks.workers());
    const Counters at_core = racks.at_core();
    const std::uint64_t results = racks.jobs().at_servers()[Counter::kResults];
    // Few passes are sent again, because workers wait for a processor. All others come as one sum: from each rack to
    // the core, and from the core to the server.
    for (const std::size_t rack : {0u, 1u}) EXPECT_GT(racks.at_leaf(rack)[Counter::kCombined] * 10, results * 9);
    EXPECT_GT(at_core[Counter::kCombined] * 10, results * 9);
    EXPECT_EQ(at_core[Counter::kClaims] + at_core[Counter::kJoins], 2 * at_core[Counter::kCombined]);
    EXPECT_LT(racks.jobs().packets_at_servers() * 10, results * 15);
    EXPECT_EQ(racks.jobs().at_servers()[Counter::kUpdates], 4 * results);
  }
}

TEST(UdpCombining, ARackWithOneWorkerIsThatWorker) {
  const JobSpec job = job_of(3);
  Racks racks(job, {{0, 1}, {2}}, {.entries = 256});
  sum_exactly(job, racks.workers());
  const std::uint64_t results = racks.jobs().at_servers()[Counter::kResults];
  EXPECT_GT(racks.at_core()[Counter::kCombined] * 10, results * 9);
  EXPECT_EQ(racks.at_leaf(1)[Counter::kCombined], 0u);
  EXPECT_GT(racks.at_leaf(1)[Counter::kPassedOn], 0u);
}

TEST(UdpCombining, FewEntriesAndLossInRacksCostOnlyTime) {
  for (const std::uint32_t entries : {1u, 16u}) {
    const JobSpec job = job_of(4);
    Racks racks(job, {{0, 1, 2}, {3}}, {.loss = 0.02, .entries = entries});
    std::vector<UdpMember> workers = racks.workers();
    for (UdpMember& worker : workers) worker.udp.loss.share = 0.02;
    sum_exactly(job, workers);
    EXPECT_GT(racks.at_core()[Counter::kCombined], 0u);
  }
}

// The racks' switches go on, and their packets are refused until the core is told of the job again.
TEST(UdpCombining, ACoreThatForgetsTheJobCostsOnlyTime) {
  const JobSpec job = job_of(4);
  Racks racks(job, {{0, 1}, {2, 3}}, {.entries = 64});
  Running running(job, racks.jobs(), racks.workers(), 20);
  running.wait_for_sums(200);
  racks.end_at_core();
  running.wait_for_sums(200);
  racks.begin_at_core();
  running.wait();
  EXPECT_GT(racks.at_core()[Counter::kCombined], 100u);
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
