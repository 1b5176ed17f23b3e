// The control state of one slot and the rule that decides what an update does to it: SwitchML's Algorithm 3 with an
// epoch check. Pure: no payload, no clock, no memory of its own, so that shared memory, a software switch, the
// simulator and the model checker's mutants all run this very code.
//
// A slot has two versions, used by turns: pass number `epoch` of a slot uses version epoch & 1. Workers send pass e + 1
// only after they have the result of pass e; so when pass e + 1 is complete every worker has read the result of pass e
// and its version may be reused for e + 2. The version bit alone cannot tell e from e + 2 (a delayed duplicate would
// be added to the wrong chunk); the epoch can.
//
// Wrap-around: epochs are compared modulo 2^32. A packet would have to be delayed over 2^32 passes of one slot to be
// mistaken for a current one.
#pragma once

#include <array>
#include <cstdint>

#include "rdma_engine/numerics/block_fixed_point.h"

namespace jaxina {

using WorkerSet = std::array<std::uint64_t, numerics::kMaxWorkers / 64>;

inline bool contains(const WorkerSet& set, std::uint32_t worker) { return set[worker / 64] >> (worker % 64) & 1; }
inline void insert(WorkerSet& set, std::uint32_t worker) { set[worker / 64] |= std::uint64_t{1} << (worker % 64); }

struct SlotVersion {
  std::uint32_t epoch;        // the pass this version holds
  std::uint32_t fingerprint;  // what that pass sums: equal for all its updates
  std::uint32_t count;        // workers that have contributed
  std::uint32_t first;        // the worker whose update came first, for the message when fingerprints differ
  WorkerSet seen;
};

struct SlotState {
  std::array<SlotVersion, 2> versions;

  // Both versions complete, as if the two passes before `first_epoch` had happened: that one may start.
  void reset(std::uint32_t workers, std::uint32_t first_epoch = 0) {
    for (const std::uint32_t epoch : {first_epoch - 2, first_epoch - 1}) version(epoch) = {epoch, 0, workers, 0, {}};
  }
  SlotVersion& version(std::uint32_t epoch) { return versions[epoch & 1]; }
  const SlotVersion& version(std::uint32_t epoch) const { return versions[epoch & 1]; }
};

struct Update {
  std::uint32_t worker;
  std::uint32_t epoch;
  std::uint32_t fingerprint;
};

enum class Verdict : std::uint8_t {
  kFirst,      // write the payload over the slot
  kAdd,        // add the payload to the slot
  kDuplicate,  // counted already, pass still incomplete
  kResend,     // counted already, pass complete: send this worker the result again
  kStale,      // an earlier pass: ignore
  kAhead,      // a pass this slot cannot have reached: refuse
  kMismatch,   // contradicts the pass's first update: the workers disagree
};

struct Outcome {
  Verdict verdict;
  bool completes;  // this update was the last one missing
};

// Decides and applies the update's effect on the control state; the caller moves the payload.
inline Outcome apply_update(SlotState& slot, std::uint32_t workers, const Update& update) {
  SlotVersion& current = slot.version(update.epoch);
  if (current.epoch == update.epoch) {
    const bool complete = current.count == workers;
    if (current.fingerprint != update.fingerprint) return {complete ? Verdict::kStale : Verdict::kMismatch, false};
    if (contains(current.seen, update.worker)) return {complete ? Verdict::kResend : Verdict::kDuplicate, false};
    if (complete) return {Verdict::kStale, false};  // the initial state, which nobody contributed to
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
  current.count = 1;
  current.first = update.worker;
  current.seen = {};
  insert(current.seen, update.worker);
  return {Verdict::kFirst, workers == 1};
}

}  // namespace jaxina
