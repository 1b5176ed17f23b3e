// The simulated control plane: it starts jobs, applies faults, and ends jobs, with the delays of a real one.
#include <algorithm>

#include "rdma_engine/sim/simulation.h"

namespace jaxina::sim {
namespace {

constexpr std::uint32_t kMostIncarnations = 3;
// The longest time until a worker hears from the control plane.
constexpr Nanoseconds kSlowestNotice = 5 * kMillisecond;

}  // namespace

void Simulation::start_job(std::uint32_t j) {
  if (down_until_ > now_) return events_.push(down_until_, EventKind::kStart, j);
  JobRun& run = jobs_[j];
  const JobPlan& plan = *run.plan;
  const std::uint32_t old_id = run.spec.job;
  const bool keeps_id = run.incarnation > 0 && plan.keeps_id;
  if (!keeps_id) {
    retired_.insert(retired_.end(), run.counters.begin(), run.counters.end());
    run.counters.clear();
  }
  forget_counters(run);
  if (keeps_id) switch_->remove(old_id);
  run.generation = ++generations_;
  ++run.incarnation;
  run.spec = {.job = keeps_id ? old_id : 1000 + run.generation, .secret = random_.next(), .shape = plan.shape};
  run.counters = add_job(run.spec, hosts_of(run));
  run.workload = std::make_unique<Workload>(plan, random_);
  run.next_epoch.assign(std::size_t{plan.shape.workers()} * plan.shape.slots(), 0);
  run.crashed = run.wiped = run.aborted = false;
  run.reason = {};
  run.active = true;
  for (std::uint32_t rank = 0; rank < plan.shape.workers(); ++rank) {
    const auto index = static_cast<std::uint16_t>(run.first_host + rank);
    Host& host = hosts_[index];
    host = {};
    host.job = j;
    host.rank = rank;
    host.end = switch_->join(run.spec, rank, index, plan);
    host.contact.emplace("switch");
    events_.push(now_ + random_.range(0, 100 * kMicrosecond), EventKind::kWork, index, run.generation);
  }
  tell(j, Trace::kEverySlot, "incarnation " + std::to_string(run.incarnation) + " of the job starts");
}

void Simulation::apply_fault(const Fault& fault) {
  JobRun& run = jobs_[fault.job];
  const auto index = static_cast<std::uint16_t>(run.first_host + fault.worker);
  Host& host = hosts_[index];
  const std::string name = "w" + std::to_string(fault.worker);
  switch (fault.kind) {
    case FaultKind::kClog:
      tell(fault.job, Trace::kEverySlot, "the link of " + name + " clogs");
      return network_.clog(index, now_ + fault.duration, fault.drops);
    case FaultKind::kPause:
      tell(fault.job, Trace::kEverySlot, name + " is stopped for a while");
      host.paused_until = now_ + fault.duration;
      return;
    case FaultKind::kCrash:
      if (!run.active || host.ended()) return;
      tell(fault.job, Trace::kEverySlot, name + " dies");
      host.dead = true;
      host.end.reset();
      run.crashed = true;
      run.crashed_at = now_;
      plan_abort(run, "worker " + std::to_string(fault.worker) + " died");
      return finish_if_ended(fault.job);
    case FaultKind::kWipe: return wipe(fault);
  }
}

void Simulation::wipe(const Fault& fault) {
  down_until_ = now_ + fault.duration;
  if (plan_.features & kCombining) {
    for (std::uint32_t j = 0; j < jobs_.size(); ++j) {
      tell(j, Trace::kEverySlot, "the switches go down and lose their memory; the job goes on");
    }
    switch_->wipe_switches();
    return events_.push(down_until_, EventKind::kRevive);
  }
  for (std::uint32_t j = 0; j < jobs_.size(); ++j) {
    JobRun& run = jobs_[j];
    if (run.counters.empty()) continue;
    tell(j, Trace::kEverySlot, "the switch goes down and loses its memory");
    forget_counters(run);
    switch_->lose(run.spec.job);
    run.wiped = true;
  }
  events_.push(down_until_, EventKind::kRevive, 0, 0, fault.forgets_jobs);
}

void Simulation::revive(bool forgot_jobs) {
  if (plan_.features & kCombining) return switch_->restore_switches();
  for (std::uint32_t j = 0; j < jobs_.size(); ++j) {
    JobRun& run = jobs_[j];
    if (!run.wiped || forgot_jobs || !run.active || !run.reason.ok()) continue;
    tell(j, Trace::kEverySlot, "the switch is back, with the job's slots empty");
    run.counters = add_job(run.spec, hosts_of(run));
    std::fill(run.next_epoch.begin(), run.next_epoch.end(), 0);
  }
}

void Simulation::fail_host(std::uint16_t index, const Status& status) {
  Host& host = hosts_[index];
  host.failure = status;
  tell(host.job, Trace::kEverySlot, "w" + std::to_string(host.rank) + " fails: " + status.text());
  check_failure(host);
  plan_abort(run_of(host), "worker " + std::to_string(host.rank) + " failed");
  finish_if_ended(host.job);
}

void Simulation::plan_abort(JobRun& run, const std::string& why) {
  if (!run.reason.ok()) return;
  run.reason = {ErrorCode::kWorkerLost, why};
  events_.push(now_ + plan_.detection_delay, EventKind::kDetect, static_cast<std::uint32_t>(&run - jobs_.data()),
               run.generation);
}

void Simulation::detect(std::uint32_t j) {
  JobRun& run = jobs_[j];
  tell(j, Trace::kEverySlot, "the control plane ends the job: " + run.reason.message);
  run.aborted = true;
  replying_to_ = run.generation;
  switch_->abort(run.spec.job, run.reason, *this);
  for (std::uint32_t rank = 0; rank < run.plan->shape.workers(); ++rank) {
    events_.push(now_ + random_.range(0, kSlowestNotice), EventKind::kNotify, run.first_host + rank, run.generation);
  }
  finish_if_ended(j);
}

void Simulation::finish_if_ended(std::uint32_t j) {
  JobRun& run = jobs_[j];
  const auto begin = hosts_.begin() + run.first_host, end = begin + run.plan->shape.workers();
  if (!run.active || !std::all_of(begin, end, [](const Host& host) { return host.ended(); })) return;
  if (!run.reason.ok() && !run.aborted) return;
  check_ended(run);
  run.active = false;
  if (run.reason.ok()) {
    ++outcome_.jobs_finished;
  } else {
    ++outcome_.jobs_ended_early;
    if (run.plan->restarts && run.incarnation < kMostIncarnations) {
      return events_.push(now_ + random_.range(0, kMillisecond), EventKind::kStart, j);
    }
  }
  --jobs_left_;
}

std::vector<const Counters*> Simulation::add_job(const JobSpec& spec, std::span<const std::uint16_t> hosts) {
  std::vector<const Counters*> counters = switch_->add(spec, hosts);
  require(!counters.empty(), "the aggregator has the job already");
  return counters;
}

void Simulation::forget_counters(JobRun& run) {
  for (const Counters* counters : run.counters) counted_gone_ += handled(*counters);
  run.counters.clear();
}

}  // namespace jaxina::sim
