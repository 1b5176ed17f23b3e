// ReadyQueue: the slots whose pass can be sent, ordered by the pass's place in the stream. All workers send in this
// order, whatever the order in which their results came. Otherwise each worker would soon hold back what another waits
// for. The order also lets a slot catch up that a lost packet has delayed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <tuple>
#include <vector>

#include "rdma_engine/base/assert.h"
#include "rdma_engine/worker/pass.h"

namespace jaxina {

class ReadyQueue {
 public:
  explicit ReadyQueue(std::size_t slots) : position_(slots, kNowhere) { heap_.reserve(slots); }

  // The slot's pass is ready to be sent, for the first time or again.
  void push(std::uint16_t slot, const Place& place) {
    if (position_[slot] != kNowhere) return;
    JAXINA_ASSERT(heap_.size() < position_.size());
    heap_.emplace_back();
    move_up(heap_.size() - 1, {place.collective, place.chunk, place.phase, slot});
  }

  // The slot's pass need not be sent any more: its result came before it was sent again. It must leave its place, or
  // the slot's next pass would get it and be sent before others that come first in the stream.
  void withdraw(std::uint16_t slot) {
    if (position_[slot] != kNowhere) remove(position_[slot]);
  }

  // The slot to send next.
  std::optional<std::uint16_t> first() const {
    return heap_.empty() ? std::nullopt : std::optional(heap_.front().slot);
  }

  // Removes and returns the slot to send next.
  std::optional<std::uint16_t> pop() {
    const std::optional<std::uint16_t> slot = first();
    if (slot) remove(0);
    return slot;
  }

 private:
  // The fields of a Place, but not a Place: they are loaded one by one, and an entry takes only 24 bytes.
  struct Entry {
    std::uint64_t collective;
    std::size_t chunk;
    Phase phase;
    std::uint16_t slot;
    bool operator<(const Entry& other) const {
      return std::tie(collective, chunk, phase) < std::tie(other.collective, other.chunk, other.phase);
    }
  };
  static constexpr std::size_t kNowhere = std::numeric_limits<std::size_t>::max();

  void put(std::size_t at, const Entry& entry) {
    heap_[at] = entry;
    position_[entry.slot] = at;
  }
  // Puts the entry at this place, which is free, or above it.
  void move_up(std::size_t at, const Entry& entry) {
    for (; at > 0 && entry < heap_[(at - 1) / 2]; at = (at - 1) / 2) put(at, heap_[(at - 1) / 2]);
    put(at, entry);
  }
  void remove(std::size_t at) {
    position_[heap_[at].slot] = kNowhere;
    const Entry last = heap_.back();
    heap_.pop_back();
    if (at == heap_.size()) return;
    // The last one mostly belongs near the bottom, so the free place moves there first.
    for (std::size_t below = 2 * at + 1; below < heap_.size(); below = 2 * at + 1) {
      if (below + 1 < heap_.size() && heap_[below + 1] < heap_[below]) ++below;
      put(at, heap_[below]);
      at = below;
    }
    move_up(at, last);
  }

  std::vector<Entry> heap_;            // a min-heap: the earliest pass of the stream is first
  std::vector<std::size_t> position_;  // of each slot's entry in it
};

}  // namespace jaxina
