// Counters: what workers, switches and devices count, as one list of names and one array of numbers. A component that
// counts only some of them leaves the others at 0.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace jaxina {

enum class Counter : std::uint8_t {
  kCollectives,  // of all local devices
  kElements,     // of all local devices
  kPacketsSent,  // in shared memory: passes
  kPacketsReceived,
  kBytesSent,  // a worker counts IP packets, an aggregator UDP payloads; 0 in shared memory
  kBytesReceived,
  // Bytes of words of each width, without headers: those that a worker sent, or that an aggregator received. Not in
  // shared memory.
  kBytesOf32Bits,
  kBytesOf16Bits,
  kBytesOf8Bits,
  kRetransmissions,
  kWindowDecreases,      // how often a worker has decreased its window
  kPacketsDropped,       // dropped on purpose, by the `loss` setting
  kPacketsUnsent,        // the network did not accept them
  kPacketsUnanswerable,  // the source cannot be answered: port 0, multicast and the like
  kPacketsRejected,      // rejected by a worker: malformed, stale or foreign
  kSocketOverflows,      // packets that arrived while the socket's receive buffer was full
  kStagedWords,          // words of GPU tensors that passed through host memory: the processor copied or added them
  kUpdates,              // contributions the aggregator accepted
  kResults,              // completed passes
  kDuplicates,           // retransmissions of updates that were counted already
  kOverlaps,             // sums of groups that were counted in part already
  // Of a switch that combines updates on their way to a server:
  kClaims,      // updates that claimed an entry of its table
  kJoins,       // updates that were added to an entry
  kCombined,    // sums of whole groups that it made
  kAbsorbed,    // updates that an entry had already
  kCollisions,  // updates passed on because another pass had their entry, or because they came too late to claim one
  kPassedOn,    // other updates that it passed on: sent direct, or not from its children
  kExpired,     // entries that were taken from their pass after their lifetime
  kReleased,    // entries that the result of their pass freed
  kReplies,     // the servers' replies that it passed on
  kMarked,      // packets that it marked, because a queue had formed at their port; at a worker: results with a mark
  // The rest are reasons why an aggregator rejected something and changed nothing. Reasons to reject datagrams:
  kTruncated,
  kForeign,
  kBadLength,
  kCorrupt,
  kNotAnUpdate,
  kUnknownJob,
  kNotEncrypted,  // in the clear, but its job's packets are encrypted
  kNotAuthentic,  // encrypted, but forged, damaged or too old
  kWrongSecret,
  // Reasons to reject updates:
  kBadWorker,
  kBadSlot,
  kTooLarge,
  kStale,
  kAhead,
  kMismatch,
  kAborted,
  // Reasons to reject RoCEv2 packets:
  kRdmaMalformed,
  kRdmaWrongIcrc,
  kRdmaUnknownQueuePair,
  kRdmaOutOfSequence,
  kRdmaBadLength,
  kRdmaNoAccess,
  kCount
};

std::string_view to_string(Counter counter);

// Whether the counter is one of the reasons to reject.
constexpr bool is_reject(Counter counter) { return counter >= Counter::kTruncated && counter < Counter::kCount; }

// Whether a switch or server counts arriving datagrams there. It counts each in one of these, except those that
// contribute to a sum: they are in kUpdates, once for each worker.
constexpr bool counts_datagrams(Counter counter) {
  switch (counter) {
    case Counter::kDuplicates:
    case Counter::kOverlaps:
    case Counter::kClaims:
    case Counter::kJoins:
    case Counter::kAbsorbed:
    case Counter::kCollisions:
    case Counter::kPassedOn:
    case Counter::kReplies: return true;
    default: return is_reject(counter);
  }
}

class Counters {
 public:
  static constexpr std::size_t kSize = static_cast<std::size_t>(Counter::kCount);

  std::uint64_t& operator[](Counter counter) { return values_[static_cast<std::size_t>(counter)]; }
  std::uint64_t operator[](Counter counter) const { return values_[static_cast<std::size_t>(counter)]; }

  Counters& operator+=(const Counters& other) {
    for (std::size_t i = 0; i < kSize; ++i) values_[i] += other.values_[i];
    return *this;
  }

  // Calls visit(counter, value) for every counter.
  template <typename Visit>
  void for_each(Visit visit) const {
    for (std::size_t i = 0; i < kSize; ++i) visit(static_cast<Counter>(i), values_[i]);
  }

 private:
  std::array<std::uint64_t, kSize> values_{};
};

}  // namespace jaxina
