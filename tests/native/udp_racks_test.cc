// Tests sums through switches of several racks and a core switch above them, over real sockets.
#include <numeric>

#include "tests/native/combined_jobs.h"

namespace jaxina {
namespace {

using namespace testing;

// A job's workers in racks with a switch each, and a core switch that combines the racks' sums.
class Racks {
 public:
  Racks(const JobSpec& job, const std::vector<std::vector<std::uint16_t>>& racks, const SwitchConfig& config,
        const SwitchConfig& of_core)
      : job_(job), racks_(racks), core_(of_core), jobs_(job, core_.ports(), groups()) {
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
    spec.ways = narrow<std::uint32_t>(std::lcm(core_.ports().size(), leaves_.front()->ports().size()));
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

TEST(UdpRacks, RackSwitchesSendSumsAndTheCoreCombinesThem) {
  for (const auto& [threads, of_core] : {std::pair{1u, 1u}, std::pair{2u, 1u}, std::pair{2u, 3u}}) {
    const JobSpec job = job_of(4);
    Racks racks(job, {{0, 2}, {1, 3}}, {.threads = threads, .entries = 256}, {.threads = of_core, .entries = 256});
    sum_exactly(job, racks.workers());
    const Counters at_core = racks.at_core();
    const std::uint64_t results = racks.jobs().at_servers()[Counter::kResults];
    // Few passes are sent again, because workers wait for a processor. All others come as one sum: from each rack to
    // the core, and from the core to the server.
    for (const std::size_t rack : {0u, 1u}) EXPECT_GT(racks.at_leaf(rack)[Counter::kCombined] * 10, results * 9);
    EXPECT_GT(at_core[Counter::kCombined] * 10, results * 9);
    EXPECT_EQ(at_core[Counter::kClaims] + at_core[Counter::kJoins], 2 * at_core[Counter::kCombined]);
    EXPECT_LT(racks.jobs().at_servers(&SwitchCounters::sockets)[Counter::kPacketsReceived] * 10, results * 15);
    EXPECT_EQ(racks.jobs().at_servers()[Counter::kUpdates], 4 * results);
  }
}

TEST(UdpRacks, ARackWithOneWorkerIsThatWorker) {
  const JobSpec job = job_of(3);
  Racks racks(job, {{0, 1}, {2}}, {.entries = 256}, {.entries = 256});
  sum_exactly(job, racks.workers());
  const std::uint64_t results = racks.jobs().at_servers()[Counter::kResults];
  EXPECT_GT(racks.at_core()[Counter::kCombined] * 10, results * 9);
  EXPECT_EQ(racks.at_leaf(1)[Counter::kCombined], 0u);
  EXPECT_GT(racks.at_leaf(1)[Counter::kPassedOn], 0u);
}

TEST(UdpRacks, FewEntriesAndLossInRacksCostOnlyTime) {
  for (const std::uint32_t entries : {1u, 16u}) {
    const JobSpec job = job_of(4);
    const SwitchConfig config{.loss = 0.02, .entries = entries};
    Racks racks(job, {{0, 1, 2}, {3}}, config, config);
    std::vector<UdpMember> workers = racks.workers();
    for (UdpMember& worker : workers) worker.udp.loss.share = 0.02;
    sum_exactly(job, workers);
    EXPECT_GT(racks.at_core()[Counter::kCombined], 0u);
  }
}

// The racks' switches go on, and their packets are refused until the core is told of the job again.
TEST(UdpRacks, ACoreThatForgetsTheJobCostsOnlyTime) {
  const JobSpec job = job_of(4);
  Racks racks(job, {{0, 1}, {2, 3}}, {.entries = 64}, {.entries = 64});
  Running running(job, racks.jobs(), racks.workers(), 60);
  running.wait_for_sums(200);
  racks.end_at_core();
  running.wait_for_sums(200);
  racks.begin_at_core();
  running.wait();
  EXPECT_GT(racks.at_core()[Counter::kCombined], 100u);
}

}  // namespace
}  // namespace jaxina
