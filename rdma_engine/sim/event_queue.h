// EventQueue: the events of virtual time, ordered by time. Events with equal times come in the order they were planned.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "rdma_engine/worker/retransmission_timer.h"

namespace jaxina::sim {

enum class EventKind : std::uint8_t {
  kArrival,   // index: packet
  kTimer,     // index: host; its worker's retransmission timer expires
  kWork,      // index: host; it is ready for its next collective, or continues after a pause
  kDeadline,  // index: host, detail: number of the collective that should be complete by now
  kFault,     // index: fault of the plan; the fault happens
  kRevive,    // the switch is back after a wipe; detail: whether it forgot its jobs
  kDetect,    // index: job; the control plane notices that a worker died or failed
  kNotify,    // index: host; the control plane tells a worker that its job has ended
  kStart,     // index: job; its next incarnation begins
  kHostile,   // the hostile sender sends
  kServed,    // index: packet; the switch takes it from its receive buffer
  kCard,      // index: host; its network card's timer expires
  kTcp,       // an acknowledgement of the TCP stream arrives
};

struct Event {
  Nanoseconds time;
  std::uint64_t order;
  std::uint32_t index;
  std::uint32_t detail;
  std::uint32_t generation;  // of the event's job; events of an earlier generation are ignored
  EventKind kind;
};

class EventQueue {
 public:
  void push(Nanoseconds time, EventKind kind, std::uint32_t index = 0, std::uint32_t generation = 0,
            std::uint32_t detail = 0) {
    heap_.push_back({time, next_order_++, index, detail, generation, kind});
    std::push_heap(heap_.begin(), heap_.end(), later);
  }
  Event pop() {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    const Event event = heap_.back();
    heap_.pop_back();
    return event;
  }
  bool empty() const { return heap_.empty(); }

 private:
  static bool later(const Event& a, const Event& b) { return a.time != b.time ? a.time > b.time : a.order > b.order; }

  std::vector<Event> heap_;
  std::uint64_t next_order_ = 0;
};

}  // namespace jaxina::sim
