// Helpers for tests of switches that combine updates on their way to servers at the workers.
#pragma once

#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "rdma_engine/base/narrow.h"
#include "rdma_engine/net/socket_address.h"
#include "tests/native/udp_fixture.h"

namespace jaxina::testing {

inline constexpr const char* kHost = "127.0.0.1";

inline Address at(std::uint16_t port) { return net::resolve(kHost, port, ErrorCode::kInvalidArgument); }

inline WorkerSet set_of(const std::vector<std::uint16_t>& workers) {
  WorkerSet set{};
  for (const std::uint16_t worker : workers) insert(set, worker);
  return set;
}

inline std::vector<std::uint16_t> everybody(const JobSpec& job) {
  std::vector<std::uint16_t> workers;
  for (std::uint32_t w = 0; w < job.shape.workers(); ++w) workers.push_back(narrow<std::uint16_t>(w));
  return workers;
}

inline std::vector<Child> each_of(const std::vector<std::uint16_t>& workers) {
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
  // What the servers have counted besides: of sockets, or without a job.
  Counters at_servers(Counters SwitchCounters::* part) const {
    Counters sum;
    for (const auto& server : servers_) sum += server->statistics().*part;
    return sum;
  }
  // Where slot i is summed.
  Address server_of(std::uint16_t slot) const { return at(servers_[slot % servers_.size()]->ports().front()); }

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

}  // namespace jaxina::testing
