// What one thread did and when, for a timeline: a ring of events, made at once, whose oldest are overwritten, so
// that recording neither allocates nor grows. Sans-IO: who drives a state machine gives it the time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "rdma_engine/base/time.h"

namespace jaxina {

struct TraceEvent {
  enum class Kind : std::uint8_t {
    kSent,  // a pass, for the first time
    kSentAgain,
    kResult,      // of the pass
    kStale,       // a result that nobody waits for any more, or that contradicts
    kPending,     // the aggregator has the pass and waits for other workers
    kRejected,    // a packet that is malformed or foreign
    kDropped,     // a packet, by the share of loss that was asked for
    kWait,        // from `time` to `end`
    kCollective,  // from `time` to `end`
  };
  enum class Wait : std::uint8_t { kSocket, kResult, kSlotLock };

  Kind kind;
  std::uint8_t detail = 0;  // of a pass: its Phase; of a wait: for what
  std::uint16_t slot = 0;
  std::uint32_t epoch = 0;
  std::uint32_t chunk = 0;
  std::uint64_t collective = 0;  // its number in the stream
  std::uint64_t elements = 0;    // of the collective, on all local devices
  Nanoseconds time = 0;
  Nanoseconds end = 0;
};

class Recorder {
 public:
  explicit Recorder(std::size_t room) : events_(std::max<std::size_t>(room, 1)) {}

  void add(const TraceEvent& event) {
    events_[static_cast<std::size_t>(recorded_ % events_.size())] = event;
    ++recorded_;
  }
  void waited(TraceEvent::Wait for_what, Nanoseconds since, Nanoseconds until) {
    add({.kind = TraceEvent::Kind::kWait, .detail = static_cast<std::uint8_t>(for_what), .time = since, .end = until});
  }

  std::size_t size() const { return static_cast<std::size_t>(std::min<std::uint64_t>(recorded_, events_.size())); }
  // How many were overwritten.
  std::uint64_t fell_out() const { return recorded_ - size(); }
  // The oldest is number 0.
  const TraceEvent& operator[](std::size_t number) const {
    return events_[static_cast<std::size_t>((fell_out() + number) % events_.size())];
  }

 private:
  std::vector<TraceEvent> events_;
  std::uint64_t recorded_ = 0;
};

}  // namespace jaxina
