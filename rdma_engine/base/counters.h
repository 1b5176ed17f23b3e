// What workers, switches and devices count: one list of names, one array of numbers. Whoever counts only some of them
// leaves the others at 0.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace jaxina {

enum class Counter : std::uint8_t {
  kCollectives,  // of every local device
  kElements,     // of every local device
  kPacketsSent,  // shared memory: passes
  kPacketsReceived,
  kBytesSent,  // a worker's: IP packets; an aggregator's: UDP payload; 0 in shared memory
  kBytesReceived,
  kRetransmissions,
  kPacketsDropped,       // by `loss`, on purpose
  kPacketsUnsent,        // the network would not take them
  kPacketsUnanswerable,  // came from no address: port 0, multicast and the like
  kPacketsRejected,      // by a worker: malformed, stale or foreign
  kSocketOverflows,      // packets that came when the socket's receive buffer was full
  kStagedWords,          // that GPUs wrote and the processor copied or added, or that it copied for them to read
  kUpdates,              // accepted contributions
  kResults,              // completed passes
  kDuplicates,           // retransmissions of what was counted already
  // Why an aggregator changed nothing: of datagrams,
  kTruncated,
  kForeign,
  kBadLength,
  kCorrupt,
  kNotAnUpdate,
  kUnknownJob,
  kWrongSecret,
  // of updates,
  kBadWorker,
  kBadSlot,
  kTooLarge,
  kStale,
  kAhead,
  kMismatch,
  kAborted,
  // of RoCEv2 packets.
  kRdmaMalformed,
  kRdmaWrongIcrc,
  kRdmaUnknownQueuePair,
  kRdmaOutOfSequence,
  kRdmaBadLength,
  kRdmaNoAccess,
  kCount
};

std::string_view to_string(Counter counter);

// Whether it says why a switch changed nothing.
constexpr bool is_reject(Counter counter) { return counter >= Counter::kTruncated && counter < Counter::kCount; }

class Counters {
 public:
  static constexpr std::size_t kSize = static_cast<std::size_t>(Counter::kCount);

  std::uint64_t& operator[](Counter counter) { return values_[static_cast<std::size_t>(counter)]; }
  std::uint64_t operator[](Counter counter) const { return values_[static_cast<std::size_t>(counter)]; }

  Counters& operator+=(const Counters& other) {
    for (std::size_t i = 0; i < kSize; ++i) values_[i] += other.values_[i];
    return *this;
  }

  // Calls visit(counter, value) for each of them.
  template <typename Visit>
  void for_each(Visit visit) const {
    for (std::size_t i = 0; i < kSize; ++i) visit(static_cast<Counter>(i), values_[i]);
  }

 private:
  std::array<std::uint64_t, kSize> values_{};
};

}  // namespace jaxina
