// Recorder: records what one thread did and when, for a timeline. It is a ring of events with a fixed size: new events
// overwrite the oldest, so recording never allocates. It is sans-IO: the code that drives a state machine gives it the
// time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "rdma_engine/base/time.h"

namespace jaxina {

struct TraceEvent {
  enum class Kind : std::uint8_t {
    kSent,  // a pass was sent for the first time
    kSentAgain,
    kResult,      // the result of the pass came
    kStale,       // a result came that nobody waits for, or that contradicts the pass
    kPending,     // the aggregator has the pass and waits for other workers
    kRejected,    // a malformed or foreign packet came
    kDropped,     // a packet was dropped on purpose, by the `loss` setting
    kWait,        // from `time` to `end`
    kCollective,  // from `time` to `end`
  };
  enum class Wait : std::uint8_t { kSocket, kResult, kSlotLock };

  Kind kind;
  std::uint8_t detail = 0;  // of a pass: its Phase; of a wait: its Wait
  std::uint16_t slot = 0;
  std::uint32_t epoch = 0;
  std::uint32_t chunk = 0;
  std::uint64_t collective = 0;  // its sequence number in the stream
  std::uint64_t elements = 0;    // elements of the collective, on all local devices
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
  // How many events were overwritten.
  std::uint64_t overwritten() const { return recorded_ - size(); }
  // Number 0 is the oldest event that is left.
  const TraceEvent& operator[](std::size_t number) const {
    return events_[static_cast<std::size_t>((overwritten() + number) % events_.size())];
  }

 private:
  std::vector<TraceEvent> events_;
  std::uint64_t recorded_ = 0;
};

}  // namespace jaxina
