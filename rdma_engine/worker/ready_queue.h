// ReadyQueue: the slots whose pass can be sent, ordered by the pass's place in the stream. All workers send in this
// order, whatever the order in which their results came. Otherwise each worker would soon hold back what another waits
// for. The order also lets a slot catch up that a lost packet has delayed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <tuple>
#include <vector>

#include "rdma_engine/base/assert.h"
#include "rdma_engine/worker/pass.h"

namespace jaxina {

class ReadyQueue {
 public:
  explicit ReadyQueue(std::size_t slots) : slots_(slots) { heap_.reserve(slots); }

  // The slot's pass is ready to be sent, for the first time or again. If the slot was withdrawn but is still in the
  // heap, it keeps its old place.
  void push(std::uint16_t slot, const Place& place) {
    slots_[slot].ready = true;
    if (slots_[slot].queued) return;
    slots_[slot].queued = true;
    JAXINA_ASSERT(heap_.size() < slots_.size());
    heap_.push_back({place.collective, place.chunk, place.phase, slot});
    std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
  }

  // The slot's pass need not be sent any more: its result came before it was sent again.
  void withdraw(std::uint16_t slot) { slots_[slot].ready = false; }

  // The slot to send next.
  std::optional<std::uint16_t> first() {
    while (!heap_.empty() && !slots_[heap_.front().slot].ready) drop_first();
    return heap_.empty() ? std::nullopt : std::optional(heap_.front().slot);
  }

  // Removes and returns the slot to send next.
  std::optional<std::uint16_t> pop() {
    const std::optional<std::uint16_t> slot = first();
    if (slot) {
      drop_first();
      slots_[*slot].ready = false;
    }
    return slot;
  }

 private:
  // The fields of a Place, but not a Place: they are loaded one by one, and an entry takes only 24 bytes.
  struct Entry {
    std::uint64_t collective;
    std::size_t chunk;
    Phase phase;
    std::uint16_t slot;
    bool operator>(const Entry& other) const {
      return std::tie(collective, chunk, phase) > std::tie(other.collective, other.chunk, other.phase);
    }
  };
  struct Slot {
    bool ready = false;
    bool queued = false;  // is in the heap
  };

  void drop_first() {
    slots_[heap_.front().slot].queued = false;
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
    heap_.pop_back();
  }

  std::vector<Entry> heap_;  // a min-heap: the earliest pass of the stream is first
  std::vector<Slot> slots_;
};

}  // namespace jaxina
