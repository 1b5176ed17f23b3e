// The oracles: conditions that must hold at every step. They use what the simulation knows and the code under test does
// not.
#include <numeric>

#include "rdma_engine/sim/simulation.h"

namespace jaxina::sim {

void Simulation::require(bool holds, std::string_view what) {
  if (holds || !outcome_.failure.empty()) return;
  outcome_.failure = std::string(what) + " (at " + std::to_string(now_) + " ns)";
}

std::uint64_t Simulation::updates_counted() const {
  std::uint64_t sum = 0;
  for (const Counters* counters : hostile_counters_) sum += (*counters)[Counter::kUpdates];
  for (const JobRun& run : jobs_) {
    for (const Counters* counters : run.counters) sum += (*counters)[Counter::kUpdates];
  }
  return sum;
}

void Simulation::check_contribution(const Packet& packet, std::uint64_t before) {
  const std::uint64_t counted = updates_counted() - before;
  if (counted == 0) return;
  if (packet.origin.maker == Origin::Maker::kSwitch) {  // a group's sum; check_combined() has seen it
    require(switch_->combined(packet) != nullptr, "a packet of a switch was counted as a worker's");
    require(!packet.origin.altered, "a corrupt sum was counted");
    joint_contributions_ += counted - 1;
    return;
  }
  require(counted == 1, "one packet was counted more than once");
  if (packet.origin.maker == Origin::Maker::kHostile && !packet.origin.altered) {
    // The hostile sender may do anything to its own job. check_ended() ensures that no other job counted this update.
    return;
  }
  require(packet.origin.maker == Origin::Maker::kWorker, "a forged update was counted");
  require(!packet.origin.altered, "a corrupt update was counted");
  if (!outcome_.failure.empty()) return;
  const Host& host = hosts_[packet.origin.host];
  JobRun& run = jobs_[host.job];
  require(run.generation == packet.origin.generation, "an update of an earlier incarnation was counted");
  if (plan_.features & kCombining) return;  // a worker's contribution may be counted with its group's sum instead
  std::uint32_t& next = run.next_epoch[std::size_t{host.rank} * run.plan->shape.slots() + packet.origin.slot];
  require(packet.origin.epoch >= next, "a contribution was counted twice");
  require(packet.origin.epoch <= next, "a contribution was counted before its turn");
  next = packet.origin.epoch + 1;
}

void Simulation::check_result(const Origin& origin, const Host& host) {
  require(origin.maker == Origin::Maker::kSwitch, "a forged result was taken");
  require(!origin.altered, "a corrupt result was taken");
  require(origin.generation == jobs_[host.job].generation, "a result of another job or incarnation was taken");
}

// Marks decrease a window at most once in a round trip. Results that come sooner than the shortest round trip after a
// decrease are of passes that were in flight then.
void Simulation::check_window(Host& host) {
  if (!(plan_.features & kCongestion)) return;
  const Window& window = host.end->worker().window();
  const bool is_marked = window.marks() > host.marks, decreased = window.decreases() > host.decreases;
  host.marks = window.marks();
  host.decreases = window.decreases();
  if (!decreased) return;
  const Nanoseconds way = run_of(host).plan->links[host.rank].delay + plan_.combining.server_link.delay;
  require(!is_marked || now_ - host.decreased_at >= 2 * way, "marks decrease a window twice in a round trip");
  ++outcome_.decreases;
  host.decreased_at = now_;
}

void Simulation::check_failure(const Host& host) {
  const JobRun& run = jobs_[host.job];
  const ErrorCode code = host.failure.code;
  if (!run.disturbed())
    return require(false, "liveness: a worker of an undisturbed job failed: " + host.failure.text());
  if (run.wiped && (plan_.features & kRing)) {
    // A switch that is told the ring again, which none is in reality, does not understand what workers send then. And a
    // worker cannot tell who is to blame for a message of which only the end was summed.
    const bool is_told_again = !run.counters.empty();
    const bool names_both = host.failure.message.find("in the middle of it, or") != std::string::npos;
    return require(code == ErrorCode::kNotSummed || code == ErrorCode::kWorkerLost || code == ErrorCode::kTimeout ||
                       (code == ErrorCode::kMismatch && (is_told_again || names_both)),
                   "the wrong error after the switch lost its rings: " + host.failure.text());
  }
  if (run.wiped) {
    return require(code == ErrorCode::kJobRejected || code == ErrorCode::kWorkerLost || code == ErrorCode::kTimeout ||
                       code == ErrorCode::kSwitchUnreachable,
                   "the wrong error after the switch lost its memory: " + host.failure.text());
  }
  require(code == ErrorCode::kWorkerLost, "the wrong error after a worker died: " + host.failure.text());
  require(now_ - run.crashed_at <= 2 * kSecond, "a worker heard too late of another one's death");
}

void Simulation::check_ended(JobRun& run) {
  if (run.disturbed()) return;
  Counters counters;
  for (const Counters* part : run.counters) counters += *part;
  outcome_.passes += counters[Counter::kResults];
  require(counters[Counter::kUpdates] == counters[Counter::kResults] * run.plan->shape.workers(),
          "a completed pass holds too few contributions");
  if (plan_.features & kCombining) return;
  require(
      counters[Counter::kUpdates] == std::accumulate(run.next_epoch.begin(), run.next_epoch.end(), std::uint64_t{0}),
      "a job counted an update that none of its workers made");
}

// The number of contributions and of other packets that switches and servers have counted.
std::uint64_t Simulation::handled(const Counters& counters) {
  std::uint64_t sum = counters[Counter::kUpdates];
  counters.for_each([&](Counter counter, std::uint64_t value) { sum += counts_datagrams(counter) ? value : 0; });
  return sum;
}

// The counters of all jobs that switches and servers have, and of packets without a job, summed.
Counters Simulation::all_counters() const {
  Counters sum = switch_->other_counters();
  for (const Counters* counters : hostile_counters_) sum += *counters;
  for (const JobRun& run : jobs_) {
    for (const Counters* counters : run.counters) sum += *counters;
  }
  for (const Counters* counters : retired_) sum += *counters;
  return sum;
}

void Simulation::check_accounting() {
  if (!switch_->accounts_for_packets()) return;
  require(counted_gone_ + handled(all_counters()) == at_switch_ + joint_contributions_,
          "the counters of switches and servers do not account for every packet");
}

}  // namespace jaxina::sim
