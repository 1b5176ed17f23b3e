// The endpoint for shared memory. The worker runs the aggregator's step itself, under the slot's lock, and quantizes
// directly into the slot. So nothing is copied, and only waits go through the kernel.
//
// A device contributes in the slot, too. Its worker takes the slot's lock for it, as a turn, and keeps it until the
// device is done and the pass is counted. A worker never waits for a turn, and whoever has one waits for nothing but
// its device. So turns always end.
#include <algorithm>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "rdma_engine/aggregator/mismatch.h"
#include "rdma_engine/base/clock.h"
#include "rdma_engine/transport/embedded/lost_peer.h"
#include "rdma_engine/transport/embedded/segment.h"
#include "rdma_engine/transport/endpoint.h"

namespace jaxina {
namespace {

using embedded::Presence;
using embedded::Segment;
using embedded::SharedSlot;

// How often a waiting worker checks whether the others are alive.
constexpr Nanoseconds kLivenessPeriod = 50'000'000;

// A lock that was acquired faster than this was free; a trace does not show it as a wait.
constexpr Nanoseconds kShortestLockWait = 1'000;

bool every_worker_has_a_core(std::uint32_t workers) { return workers <= std::thread::hardware_concurrency(); }

class EmbeddedEndpoint final : public Endpoint {
 public:
  EmbeddedEndpoint(const Membership& member, const EmbeddedConfig& config)
      : member_(member),
        segment_(Segment::open(member, config)),
        // Results are used in place. A version's words stay until the pass after next begins, and that cannot begin
        // before this worker has sent its next pass.
        worker_({.shape = member.shape,
                 .timer = {},
                 .memory = {.results = segment_->words(),
                            .take_turn = [this](std::uint16_t slot) { return take_turn(slot); }},
                 .index = member.worker}),
        has_core_(every_worker_has_a_core(member.shape.workers())),
        spins_(has_core_ ? 2000 : 50),
        in_flight_(member.shape.slots()),
        has_turn_(member.shape.slots()) {
    segment_->join(member);
  }
  ~EmbeddedEndpoint() override { segment_->leave(member_.worker); }

  Worker& worker() override { return worker_; }
  Status progress(Nanoseconds wait) override;
  void wake() override { interrupt_.raise(); }
  std::vector<std::uint32_t> missing() override;
  void end(const Status& reason) override { static_cast<void>(segment_->end(reason)); }

 private:
  Counters transport_counters() const override { return counters_; }

  struct Awaited {
    std::uint16_t slot;
    std::uint32_t epoch;
    Pass pass;
  };

  // The time for traces. The worker itself needs no time: nothing is ever sent again in shared memory.
  Nanoseconds trace_clock() const { return recorder_ ? now() : 0; }
  bool acquire(SharedSlot& slot);
  void release(SharedSlot& slot);
  Turn take_turn(std::uint16_t index);
  Status contribute(const Pass& pass);
  std::optional<Result> next_result();
  bool take_result();
  void take_older_results();
  Status check_peers();
  Awaited& front() { return in_flight_[head_]; }
  embedded::Event& done(const Awaited& a) { return segment_->slot(a.slot).done[a.epoch & 1]; }
  bool is_done(const Awaited& a) { return done(a).value.load(std::memory_order_acquire) == a.epoch; }

  Membership member_;
  std::shared_ptr<Segment> segment_;
  Worker worker_;
  const bool has_core_;  // whether every worker of the job can have a core of its own
  // With a core each, the other side answers within a few microseconds, and sleeping costs more than that. Otherwise a
  // spinning worker takes time from the worker it waits for.
  const int spins_;
  std::optional<Pass> blocked_;           // a pass whose slot another worker held for too long
  std::optional<std::uint16_t> refused_;  // the slot whose turn was another worker's when it was last asked for
  std::vector<Awaited> in_flight_;        // ring, oldest first
  std::size_t head_ = 0, size_ = 0;
  std::vector<std::uint8_t> has_turn_;  // per slot: whether this worker holds its lock for a device
  Nanoseconds next_check_ = 0;          // when to check the other workers next
  embedded::Interrupt interrupt_;
  Counters counters_;
};

Status EmbeddedEndpoint::progress(Nanoseconds wait) {
  const Nanoseconds deadline = now() + wait;
  while (true) {
    while (std::optional<Pass> pass =
               blocked_ ? std::exchange(blocked_, std::nullopt) : worker_.next_pass(trace_clock())) {
      if (Status status = contribute(*pass); !status.ok()) return status;
      if (blocked_) break;
    }
    if (worker_.has_completed() || (size_ == 0 && !blocked_ && !worker_.awaits_devices())) return {};
    if (take_result()) continue;
    const Nanoseconds left = deadline - now();
    if (left <= 0 || interrupt_.take()) return {};
    if (blocked_) continue;
    if (worker_.awaits_devices()) {
      std::this_thread::yield();
      if (!refused_ || now() < next_check_) continue;
      next_check_ = now() + kLivenessPeriod;
      if (Status status = check_peers(); !status.ok()) return status;
      continue;
    }
    const Nanoseconds waits_since = trace_clock();
    const bool complete = done(front()).wait(front().epoch, spins_, std::min(left, kLivenessPeriod), &interrupt_);
    if (recorder_) recorder_->waited(TraceEvent::Wait::kResult, waits_since, trace_clock());
    if (complete || now() < next_check_) continue;
    next_check_ = now() + kLivenessPeriod;
    if (Status status = check_peers(); !status.ok()) return status;
  }
}

// Returns false if another worker has held the slot for long: it is adding a chunk, or was stopped while it did.
bool EmbeddedEndpoint::acquire(SharedSlot& slot) {
  const Nanoseconds waits_since = trace_clock();
  const bool acquired = slot.lock.acquire(spins_, kLivenessPeriod);
  if (recorder_ && trace_clock() - waits_since >= kShortestLockWait) {
    recorder_->waited(TraceEvent::Wait::kSlotLock, waits_since, trace_clock());
  }
  if (!acquired) return false;
  slot.holder.store(member_.worker, std::memory_order_relaxed);
  return true;
}

void EmbeddedEndpoint::release(SharedSlot& slot) {
  slot.holder.store(SharedSlot::kNobody, std::memory_order_relaxed);
  slot.lock.release();
}

Turn EmbeddedEndpoint::take_turn(std::uint16_t index) {
  SharedSlot& slot = segment_->slot(index);
  if (!slot.lock.try_acquire()) {
    refused_ = index;
    return {};
  }
  refused_.reset();
  slot.holder.store(member_.worker, std::memory_order_relaxed);
  has_turn_[index] = true;
  const std::uint32_t epoch = worker_.epoch(index);
  return {segment_->words(index, epoch), slot.state.version(epoch).epoch != epoch};
}

Status EmbeddedEndpoint::contribute(const Pass& pass) {
  SharedSlot& slot = segment_->slot(pass.slot);
  const bool device_contributed = std::exchange(has_turn_[pass.slot], false);
  if (!device_contributed && !acquire(slot)) {
    blocked_ = pass;
    return check_peers();
  }
  const Outcome outcome =
      apply_update(slot.state, member_.shape.workers(), {member_.worker, pass.epoch, pass.fingerprint});
  const bool first = outcome.verdict == Verdict::kFirst;
  if (!first && outcome.verdict != Verdict::kAdd) {
    const Status status = mismatch_between(slot.state.version(pass.epoch).first, member_.worker);
    release(slot);
    return segment_->end(status);
  }
  std::uint32_t* words = segment_->words(pass.slot, pass.epoch);
  std::uint8_t* exponents = slot.exponents[pass.epoch & 1];
  const numerics::Store store = first ? numerics::Store::kWrite : numerics::Store::kAdd;
  // Each new pass takes the oldest result. So the oldest slot gets the longest time to complete.
  if (const std::optional<Result> result = next_result()) {
    worker_.exchange(pass, exponents, !first, words, store, *result, trace_clock());
  } else {
    worker_.fill_exponents(pass, exponents, !first);
    worker_.fill_words(pass, words, store);
  }
  if (outcome.completes) slot.done[pass.epoch & 1].set(pass.epoch);
  release(slot);
  in_flight_[(head_ + size_++) % in_flight_.size()] = {pass.slot, pass.epoch, pass};
  ++counters_[Counter::kPacketsSent];
  if (outcome.completes && has_core_ && !device_contributed) take_older_results();
  return {};
}

// Takes results until only the last one is left, whose pass this worker has completed. The next pass takes that one. So
// whoever completes a pass reads the sum at once, while the words are in its cache, and before the others do. If it
// read the sum a whole pool later, as they do, the first write of a later pass to these words was slow. A sum to which
// a worker came late took 1.7 to 3.6 times as long (docs/performance-work.md).
void EmbeddedEndpoint::take_older_results() {
  while (size_ > 1 && is_done(in_flight_[(head_ + 1) % in_flight_.size()]) && take_result()) {
  }
}

// Returns the oldest pass's result, if it is there, and removes that pass from in_flight_.
std::optional<Result> EmbeddedEndpoint::next_result() {
  if (size_ == 0) return std::nullopt;
  const Awaited awaited = front();
  if (!is_done(awaited)) return std::nullopt;
  head_ = (head_ + 1) % in_flight_.size();
  --size_;
  ++counters_[Counter::kPacketsReceived];
  const Pass& pass = awaited.pass;
  return Result{pass.slot,
                pass.epoch,
                pass.fingerprint,
                pass.words,
                pass.exponents,
                segment_->words(pass.slot, pass.epoch),
                segment_->slot(pass.slot).exponents[pass.epoch & 1],
                numerics::Order::kHost};
}

bool EmbeddedEndpoint::take_result() {
  const std::optional<Result> result = next_result();
  if (result) worker_.on_result(*result, trace_clock());
  return result.has_value();
}

std::vector<std::uint32_t> EmbeddedEndpoint::missing() {
  std::vector<std::uint32_t> result;
  if (size_ == 0 && !blocked_ && !refused_) return result;
  SharedSlot& slot = segment_->slot(blocked_ ? blocked_->slot : size_ > 0 ? front().slot : *refused_);
  // Does not sleep: another worker's turn may last, and this worker's own turns must end meanwhile.
  if (!slot.lock.acquire(spins_, 0)) {
    const std::uint32_t holder = slot.holder.load(std::memory_order_relaxed);
    if (holder < member_.shape.workers()) result.push_back(holder);
    return result;
  }
  if (blocked_ || size_ == 0) return release(slot), result;  // the slot is free again
  const WorkerSet seen = slot.state.version(front().epoch).seen;
  release(slot);
  for (std::uint32_t i = 0; i < member_.shape.workers(); ++i) {
    if (!contains(seen, i)) result.push_back(i);
  }
  return result;
}

Status EmbeddedEndpoint::check_peers() {
  if (Status status = segment_->ended(); !status.ok()) return status;
  const auto has_left = [this](std::uint32_t worker) {
    return segment_->member(worker).presence.load(std::memory_order_acquire) ==
           static_cast<std::uint32_t>(Presence::kLeft);
  };
  const std::optional<embedded::LostPeer> lost = embedded::find_lost_peer(
      member_.shape.workers(), member_.worker, has_left, [this] { return missing(); },
      [this](std::uint32_t worker) { return segment_->is_alive(worker); });
  if (!lost) return {};
  return segment_->end({ErrorCode::kWorkerLost, "worker " + std::to_string(lost->worker) + " (process " +
                                                    std::to_string(segment_->member(lost->worker).process) + ")" +
                                                    (lost->left ? " left the job while others still wait for it"
                                                                : " died. Restart the job from its last checkpoint")});
}

}  // namespace

std::unique_ptr<Endpoint> make_endpoint(const Membership& member, const EmbeddedConfig& config) {
  return std::make_unique<EmbeddedEndpoint>(member, config);
}

}  // namespace jaxina
