// The control state of one slot, and the rule that decides what an update does to it: Algorithm 3 of the SwitchML paper
// (Sapio et al., NSDI 2021) with an epoch check added. It has no payload, no clock and no memory of its own. So shared
// memory, a software switch, the simulator and the model checker's mutants can all run this very code.
//
// A slot has two versions, used in turn: pass number `epoch` of a slot uses version epoch & 1. A worker sends pass e +
// 1 only after it has the result of pass e. So when pass e + 1 is complete, every worker has read the result of pass e,
// and pass e + 2 may reuse its version. The version bit alone cannot tell e from e + 2, so a delayed duplicate would be
// added to the wrong chunk. The epoch can tell them apart.
//
// An update may carry the sum of several workers: a switch on the way has combined them (combiner/). Then the slot adds
// sets that are disjoint from what it has. A set that contains all it has replaces it. A set that only overlaps is
// refused, because adding it would count a worker twice.
//
// Wrap-around: epochs are compared modulo 2^32. A packet is mistaken for a current one only if it is delayed by almost
// 2^32 passes of one slot.
#pragma once

#include <array>
#include <cstdint>

#include "rdma_engine/aggregator/worker_set.h"

namespace jaxina {

struct SlotVersion {
  std::uint32_t epoch;        // the pass this version holds
  std::uint32_t fingerprint;  // what that pass sums: equal for all its updates
  std::uint32_t count;        // workers that have contributed so far: the size of `seen`
  std::uint32_t first;        // worker whose update came first; a mismatch error names it
  WorkerSet seen;
};

struct SlotState {
  std::array<SlotVersion, 2> versions;

  // Marks both versions as complete, as if the two passes before `first_epoch` had happened. So pass `first_epoch` may
  // start.
  void reset(std::uint32_t workers, std::uint32_t first_epoch = 0) {
    for (const std::uint32_t epoch : {first_epoch - 2, first_epoch - 1}) version(epoch) = {epoch, 0, workers, 0, {}};
  }
  SlotVersion& version(std::uint32_t epoch) { return versions[epoch & 1]; }
  const SlotVersion& version(std::uint32_t epoch) const { return versions[epoch & 1]; }
};

struct Update {
  std::uint32_t worker;  // of a group: any of its workers
  std::uint32_t epoch;
  std::uint32_t fingerprint;
  const WorkerSet* group = nullptr;  // the workers whose sum this is; null: only `worker`
};

enum class Verdict : std::uint8_t {
  kFirst,      // write the payload over the slot
  kAdd,        // add the payload to the slot
  kReplace,    // holds all that was counted, and more: write the payload over the slot
  kDuplicate,  // counted already, and the pass is incomplete
  kResend,     // counted already, and the pass is complete: send the result again
  kOverlap,    // counted in part: refuse it
  kStale,      // an earlier pass: ignore it
  kAhead,      // a pass this slot cannot have reached: refuse it
  kMismatch,   // contradicts the first update of the pass: the workers disagree
};

struct Outcome {
  Verdict verdict;
  bool completes;  // this update completed the pass
};

// The same as apply_update(), for the sum of a group in a pass that has begun and is not complete.
inline Outcome apply_group(SlotVersion& current, std::uint32_t workers, const WorkerSet& group) {
  const Relation relation = relation_of(group, current.seen);
  if (relation == Relation::kInside) return {Verdict::kDuplicate, false};
  if (relation == Relation::kOverlaps) return {Verdict::kOverlap, false};
  unite(current.seen, group);
  current.count = size_of(current.seen);
  return {relation == Relation::kDisjoint ? Verdict::kAdd : Verdict::kReplace, current.count == workers};
}

// Decides what the update does and applies it to the control state. The caller moves the payload.
inline Outcome apply_update(SlotState& slot, std::uint32_t workers, const Update& update) {
  SlotVersion& current = slot.version(update.epoch);
  if (current.epoch == update.epoch) {
    const bool complete = current.count == workers;
    if (current.fingerprint != update.fingerprint) return {complete ? Verdict::kStale : Verdict::kMismatch, false};
    if (update.group != nullptr && !complete) return apply_group(current, workers, *update.group);
    if (contains(current.seen, update.worker)) return {complete ? Verdict::kResend : Verdict::kDuplicate, false};
    if (complete) return {Verdict::kStale, false};  // the initial state, to which nobody contributed
    insert(current.seen, update.worker);
    ++current.count;
    return {Verdict::kAdd, current.count == workers};
  }
  const auto distance = static_cast<std::int32_t>(update.epoch - current.epoch);
  if (distance < 0) return {Verdict::kStale, false};
  const SlotVersion& previous = slot.version(update.epoch - 1);
  const bool reusable = distance == 2 && previous.epoch == update.epoch - 1 && previous.count == workers;
  if (!reusable) return {Verdict::kAhead, false};
  current.epoch = update.epoch;
  current.fingerprint = update.fingerprint;
  current.first = update.worker;
  current.seen = {};
  if (update.group != nullptr) {
    current.seen = *update.group;
    current.count = size_of(*update.group);
  } else {
    insert(current.seen, update.worker);
    current.count = 1;
  }
  return {Verdict::kFirst, current.count == workers};
}

}  // namespace jaxina
