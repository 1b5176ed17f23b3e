// Entry: one place of a combining switch's table, and the rule that decides what a packet does to it (docs/atp.md). It
// has no payload, no clock and no memory of its own.
//
// Jobs share the table. Nothing is reserved for a job: a pass claims its entry with the first packet that comes, if the
// entry is free. A packet that finds another pass there goes on to the server as it is. An entry becomes free again
// when the result of its pass goes by, or when another pass wants it after its lifetime. The switch may lose an entry
// at any time: then the workers' later transmissions go directly to the server, which can always finish the sum.
#pragma once

#include <cstdint>

#include "rdma_engine/aggregator/worker_set.h"
#include "rdma_engine/base/time.h"

namespace jaxina {

// One pass of one job. It is the same in all packets of the pass, and in its result.
struct PassId {
  std::uint32_t job = 0;  // number that the switch has given to this registration of the job
  std::uint32_t slot = 0;
  std::uint32_t epoch = 0;
  std::uint32_t fingerprint = 0;
  std::uint16_t words = 0;
  std::uint8_t exponents = 0;
  bool operator==(const PassId&) const = default;
};

struct Entry {
  PassId pass;
  std::uint32_t count = 0;  // children whose packets are in the sum; 0: the entry is free
  Nanoseconds claimed = 0;  // when the pass claimed it
  WorkerSet seen{};         // these children, by index
  PassId collided;          // the latest pass that found the entry taken
  bool marked = false;      // one of these packets was marked
};

struct Contribution {
  PassId pass;
  std::uint32_t child;     // index of the sender among the switch's children
  std::uint32_t children;  // of the job at this switch
  bool may_claim;
  bool marked = false;  // the packet is
};

enum class EntryVerdict : std::uint8_t {
  kClaim,   // write the payload over the entry
  kJoin,    // add the payload to the entry
  kAbsorb,  // in the entry already: drop it
  kRepeat,  // the entry is complete: send its sum again
  kPass,    // send the packet on as it is
};

struct EntryOutcome {
  EntryVerdict verdict;
  bool completes = false;  // the entry now has the packets of all children
  bool expired = false;    // the entry was taken from another pass
};

// Whether a pass has the entry, and no other pass may take it.
inline bool is_held(const Entry& entry, Nanoseconds now, Nanoseconds lifetime) {
  return entry.count > 0 && now - entry.claimed <= lifetime;
}

// A pass does not join an entry that is older than the lifetime, not even its own: a late packet could have claimed it
// before the epoch wrapped around.
inline EntryOutcome apply_to_entry(Entry& entry, const Contribution& from, Nanoseconds now, Nanoseconds lifetime) {
  const bool held = is_held(entry, now, lifetime);
  if (held && entry.pass == from.pass) {
    entry.marked = entry.marked || from.marked;
    if (entry.count == from.children) return {EntryVerdict::kRepeat};
    if (contains(entry.seen, from.child)) return {EntryVerdict::kAbsorb};
    insert(entry.seen, from.child);
    ++entry.count;
    return {EntryVerdict::kJoin, entry.count == from.children};
  }
  if (!from.may_claim) return {EntryVerdict::kPass};
  if (held) {
    entry.collided = from.pass;
    return {EntryVerdict::kPass};
  }
  if (entry.collided == from.pass) return {EntryVerdict::kPass};
  const bool expired = entry.count > 0;
  entry = {.pass = from.pass, .count = 1, .claimed = now, .collided = entry.collided, .marked = from.marked};
  insert(entry.seen, from.child);
  return {EntryVerdict::kClaim, from.children == 1, expired};
}

// The result of a pass goes by. Returns whether it freed the entry.
inline bool release(Entry& entry, const PassId& pass, Nanoseconds now, Nanoseconds lifetime) {
  if (!is_held(entry, now, lifetime) || entry.pass != pass) return false;
  entry.count = 0;
  return true;
}

}  // namespace jaxina
