#include "rdma_engine/sim/simulation.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace jaxina::sim {
namespace {

// The longest virtual time after the faults stop. It is longer than the collective timeout, which ends everything that
// hangs.
constexpr Nanoseconds kMostAfterQuiet = 30 * kSecond;
constexpr Nanoseconds kCollectiveTimeout = 10 * kSecond;
// Seeds take some thousand steps. One that takes millions sends without end.
constexpr std::uint64_t kMostSteps = 20'000'000;

}  // namespace

Outcome simulate(const Scenario& scenario, std::uint64_t seed, Trace* trace) {
  Random random(seed);
  const Plan plan = draw_plan(scenario, seed, random);
  return run(plan, random, trace);
}

Outcome run(const Plan& plan, Random random, Trace* trace) {
  return plan.features & kSharedMemory ? simulate_shared_memory(plan, random, trace)
                                       : Simulation(plan, random, trace).run();
}

Simulation::Simulation(const Plan& plan, Random random, Trace* trace)
    : plan_(plan), random_(random), trace_(trace), network_(plan, events_, random_) {
  for (std::uint32_t j = 0; j < plan.jobs.size(); ++j) {
    JobRun run;
    run.plan = &plan.jobs[j];
    run.first_host = static_cast<std::uint16_t>(hosts_.size());
    for (std::uint32_t rank = 0; rank < run.plan->shape.workers(); ++rank) {
      hosts_.emplace_back();
      hosts_.back().job = j;
      hosts_.back().rank = rank;
    }
    events_.push(run.plan->starts_at, EventKind::kStart, j);
    jobs_.push_back(std::move(run));
  }
  make_nodes();
  jobs_left_ = jobs_.size();
  for (std::uint32_t i = 0; i < plan.scheduled_faults.size(); ++i)
    events_.push(plan.scheduled_faults[i].at, EventKind::kFault, i);
  if (plan.hostile_packets > 0) start_hostile();
  if (plan.tcp_stream.packet_bytes > 0) {
    tcp_stream_.emplace(plan.tcp_stream, jobs_[0].first_host, network_, events_);
    tcp_stream_->send(now_);
  }
}

Outcome Simulation::run() {
  while (outcome_.failure.empty() && (jobs_left_ > 0 || network_.in_flight() > 0 || is_any_card_busy())) {
    if (events_.empty()) {
      require(false, "liveness: a job has not ended and nothing is left to happen");
      break;
    }
    const Event event = events_.pop();
    now_ = event.time;
    if (outcome_.looks.size() < plan_.looks.size() && now_ >= plan_.looks[outcome_.looks.size()]) {
      outcome_.looks.push_back(look());
      if (outcome_.looks.size() == plan_.looks.size()) break;
    }
    if (!quiet_ && now_ >= plan_.quiet_at) {
      quiet_ = true;
      network_.end_faults();
    }
    require(now_ <= plan_.quiet_at + kMostAfterQuiet, "liveness: a job has not ended long after all faults stopped");
    require(++steps_ <= kMostSteps, "liveness: packets and timers without end");
    log(static_cast<std::uint64_t>(event.time) << 8 | static_cast<std::uint64_t>(event.kind));
    log(event.index);
    step(event);
  }
  if (outcome_.failure.empty()) check_accounting();
  require(switch_->entries_held_after_lifetime(now_) == 0, "an idle switch holds an entry after its lifetime");
  outcome_.marked = all_counters()[Counter::kMarked];
  outcome_.log_hash = hash_;
  outcome_.virtual_time = now_;
  outcome_.network = network_.counters();
  return outcome_;
}

void Simulation::step(const Event& event) {
  switch (event.kind) {
    case EventKind::kArrival: return arrive(event.index);
    case EventKind::kServed: return take_in(event.index);
    case EventKind::kFault: return apply_fault(plan_.scheduled_faults[event.index]);
    case EventKind::kRevive: return revive(event.detail != 0);
    case EventKind::kHostile: return send_hostile();
    case EventKind::kStart: return start_job(event.index);
    case EventKind::kTcp: return tcp_stream_->on_acknowledgement(now_);
    case EventKind::kDetect:
      if (jobs_[event.index].generation == event.generation) detect(event.index);
      return;
    case EventKind::kCard:
      if (run_of(hosts_[event.index]).generation == event.generation) on_card(static_cast<std::uint16_t>(event.index));
      return;
    case EventKind::kTimer:
    case EventKind::kWork:
    case EventKind::kDeadline:
    case EventKind::kNotify: break;
  }
  Host& host = hosts_[event.index];
  JobRun& run = run_of(host);
  const auto index = static_cast<std::uint16_t>(event.index);
  if (run.generation != event.generation || host.ended()) return;
  if (host.paused_until > now_) {  // a paused process does nothing until it continues
    if (host.timer_at == now_ && event.kind == EventKind::kTimer) host.timer_at = host.paused_until;
    return events_.push(host.paused_until, event.kind, event.index, event.generation, event.detail);
  }
  switch (event.kind) {
    case EventKind::kTimer:
      if (host.timer_at != now_) return;
      host.timer_at = -1;
      return work(index);
    case EventKind::kWork: return work(index);
    case EventKind::kDeadline:
      if (host.completed <= event.detail) {
        fail_host(index, {ErrorCode::kTimeout, "a collective did not finish within its deadline"});
      }
      return;
    case EventKind::kNotify: return fail_host(index, run.reason);
    default: return;
  }
}

void Simulation::arrive(std::uint32_t index) {
  Packet& packet = network_.packet(index);
  Host* host = packet.at == packet.to ? process_at(packet.to) : nullptr;
  if (host != nullptr && host->paused_until > now_ && !(host->end && host->end->has_network_card())) {
    return events_.push(host->paused_until, EventKind::kArrival, index);
  }
  log(packet.size);
  if (packet.size >= 8) {
    std::uint64_t word;
    std::memcpy(&word, &packet.bytes[packet.size - 8u], sizeof(word));
    log(word);
  }
  if (packet.at != packet.to) return network_.forward(index, now_);
  if (packet.to == kSwitch && plan_.ingress.room > 0) {
    if (network_.queue_at_switch(index, now_)) return;
    overflowed_ = true;
  } else if (packet.to < hosts_.size()) {
    network_.count_delivery();
    arrive_at_host(packet, *host);
  } else if (is_switch(packet.to) ? now_ >= down_until_ : host == nullptr || !host->dead) {
    arrive_at_node(packet);
  }
  network_.release(index);
}

void Simulation::take_in(std::uint32_t index) {
  // The kernel reports an overflow with the next packet.
  if (std::exchange(overflowed_, false)) switch_->on_overflow();
  if (now_ >= down_until_) arrive_at_node(network_.packet(index));
  network_.release(index);
}

void Simulation::arrive_at_node(const Packet& packet) {
  network_.count_delivery();
  ++at_switch_;
  const std::uint64_t before = updates_counted();
  replying_to_ = packet.origin.generation;
  handled_ = &packet;
  if (trace_ == nullptr) {
    switch_->on_packet(packet, now_, *this);
  } else {
    const Counters rejects = all_counters();
    const std::size_t position = trace_->size();
    switch_->on_packet(packet, now_, *this);
    tell_arrival(packet, position, rejects, before);
  }
  handled_ = nullptr;
  require(switch_->broken().empty(), switch_->broken());
  check_contribution(packet, before);
}

void Simulation::arrive_at_host(const Packet& packet, Host& host) {
  if (host.dead || !host.failure.ok() || !host.end) return;
  const std::uint16_t index = index_of(host);
  HostOutput sender(*this, index);
  host.end->arrive(packet, now_, sender);
  plan_card(index, host);
  require(switch_->broken().empty(), switch_->broken());
  if (host.paused_until > now_) {
    return events_.push(host.paused_until, EventKind::kWork, index, run_of(host).generation);
  }
  if (!read_replies(host, &packet)) return;
  // With kMerging, packets that arrive together are read together.
  if (!(plan_.features & kMerging)) return work(index);
  if (std::exchange(host.reads_at, now_) != now_) events_.push(now_, EventKind::kWork, index, run_of(host).generation);
}

// `latest`, if given, is the packet that has just arrived. Returns false if there was no reply, or if the worker has
// failed.
bool Simulation::read_replies(Host& host, const Packet* latest) {
  Origin origin;
  bool any = false;
  while (const std::optional<WorkerEnd::Reply> reply = host.end->next_reply(now_, origin)) {
    any = true;
    host.contact->answered();
    if (trace_ != nullptr && latest != nullptr) tell_reply(*latest, host, reply->kind);
    switch (reply->kind) {
      case WorkerEnd::Kind::kResult:
        check_result(origin, host);
        check_window(host);
        break;
      case WorkerEnd::Kind::kRefused:
        fail_host(index_of(host), host.contact->refusal(static_cast<wire::Refusal>(reply->header.code)));
        return false;
      case WorkerEnd::Kind::kAborted:
        fail_host(index_of(host), host.contact->abort(reply->header.code, reply->payload));
        return false;
      case WorkerEnd::Kind::kStale:
      case WorkerEnd::Kind::kPending: break;
    }
  }
  return any;
}

void Simulation::work(std::uint16_t index) {
  Host& host = hosts_[index];
  if (host.ended()) return;
  read_replies(host, nullptr);  // replies that arrived while the process was paused
  if (host.ended()) return;
  Worker& worker = host.end->worker();
  do {
    worker.on_tick(now_);
    send_ready(index, host);
    take_completed(host);
  } while (submit_next(index, host));
  require(worker.in_flight() <= run_of(host).plan->shape.slots(), "memory: more passes in flight than slots");
  const Status contact = host.contact->check(now_);
  if (!contact.ok()) return fail_host(index, contact);
  if (host.completed == run_of(host).workload->collectives()) {
    host.done = true;
    return finish_if_ended(host.job);
  }
  const std::optional<Nanoseconds> deadline = worker.next_deadline();
  if (!deadline || (host.timer_at >= 0 && host.timer_at <= *deadline)) return;
  host.timer_at = std::max(*deadline, now_ + 1);
  events_.push(host.timer_at, EventKind::kTimer, index, run_of(host).generation);
}

void Simulation::send_ready(std::uint16_t index, Host& host) {
  HostOutput sender(*this, index);
  while (const std::optional<Pass> pass = host.end->send_next(now_, sender)) {
    host.contact->sent(pass->retransmission());
    outcome_.retransmissions += pass->retransmission();
  }
  plan_card(index, host);
}

void Simulation::on_card(std::uint16_t index) {
  Host& host = hosts_[index];
  if (host.card_at != now_ || host.dead || !host.failure.ok() || !host.end) return;
  host.card_at = -1;
  HostOutput sender(*this, index);
  host.end->on_card_tick(now_, sender);
  plan_card(index, host);
}

// Whether a worker has finished, and its network card still waits for the next worker's acknowledgement. It must come,
// unless the switch has lost the ring: it may hold what the card sends again.
bool Simulation::is_any_card_busy() const {
  return std::any_of(hosts_.begin(), hosts_.end(), [this](const Host& host) {
    const JobRun& run = jobs_[host.job];
    return host.done && !host.dead && run.reason.ok() && !run.wiped && host.end && host.end->card_deadline();
  });
}

void Simulation::plan_card(std::uint16_t index, Host& host) {
  const std::optional<Nanoseconds> deadline = host.end->card_deadline();
  if (!deadline || (host.card_at >= 0 && host.card_at <= *deadline)) return;
  host.card_at = std::max(*deadline, now_ + 1);
  events_.push(host.card_at, EventKind::kCard, index, run_of(host).generation);
}

void Simulation::take_completed(Host& host) {
  for (std::size_t popped = host.end->worker().pop_completed(); popped > 0; --popped) {
    require(run_of(host).workload->is_exact(host.completed, host.rank), "a delivered sum is wrong");
    tell(host.job, Trace::kEverySlot,
         "w" + std::to_string(host.rank) + " has the sum of collective " + std::to_string(host.completed));
    ++host.completed;
    ++outcome_.sums;
  }
}

bool Simulation::submit_next(std::uint16_t index, Host& host) {
  JobRun& run = run_of(host);
  if (host.submitted == run.workload->collectives() || host.submitted - host.completed >= run.plan->ahead) return false;
  if (now_ < host.next_submit) return false;
  host.end->worker().submit(run.workload->collective(host.submitted, host.rank));
  events_.push(now_ + kCollectiveTimeout, EventKind::kDeadline, index, run.generation,
               static_cast<std::uint32_t>(host.submitted));
  ++host.submitted;
  if (run.plan->max_compute > 0) {
    host.next_submit = now_ + random_.range(1, run.plan->max_compute);
    events_.push(host.next_submit, EventKind::kWork, index, run.generation);
  }
  return true;
}

}  // namespace jaxina::sim
