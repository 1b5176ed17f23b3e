// The stream of collectives, cut into the passes of slots: which pass each slot is in, which comes next, and which
// collective is complete. Knows nothing of what is sent, lost or carried.
//
// Chunk c of a collective belongs to slot (start + c) mod s; the start moves on with every collective, so small ones
// overlap. Every worker derives the same passes for every slot from the order of its collectives alone:
//   look-ahead   no data; the exponents of the slot's first chunk       (only if some tensor is float32)
//   flags        which elements are NaN or Inf, with the finite values' exponents   (only if a block holds any)
//   data         the chunk, with the exponents of the slot's next chunk
// and each pass takes the slot's next epoch.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "rdma_engine/base/assert.h"
#include "rdma_engine/base/narrow.h"
#include "rdma_engine/worker/layout.h"
#include "rdma_engine/worker/pass.h"

namespace jaxina {

class Stream {
 public:
  explicit Stream(std::size_t slots) : slots_(slots) {
    JAXINA_ASSERT(slots > 0);
    for (std::size_t slot = 0; slot < slots; ++slot) slots_[slot].content.slot = narrow<std::uint16_t>(slot);
  }

  // Appends a collective. Calls started(slot) for each slot that was idle and has a pass now, in the order of their
  // chunks.
  template <typename Started>
  void append(Layout layout, Started started) {
    const std::size_t s = slots_.size(), start = next_start_, chunks = layout.chunks();
    collectives_.emplace_back(std::move(layout), start);
    // After its last chunk's slot, which is also the order in which it leaves the slots: a worker that submits the next
    // collective early and one that does so late then send its chunks in the same order.
    next_start_ = (start + chunks) % s;
    for (std::size_t offset = 0; offset < std::min(s, chunks); ++offset) {
      const auto slot = narrow<std::uint16_t>((start + offset) % s);
      if (!slots_[slot].content.layout && start_next_collective(slots_[slot])) started(slot);
    }
  }

  std::size_t slots() const { return slots_.size(); }
  // Of the slot's pass, or else its next one.
  std::uint32_t epoch(std::uint16_t slot) const { return slots_[slot].epoch; }
  // Of a slot that has a pass. It is not copied: that would load as one vector fields that were just stored one by one,
  // for which a processor waits (CMakeLists.txt).
  const Content& content(std::uint16_t slot) const {
    JAXINA_ASSERT(slots_[slot].content.layout);
    return slots_[slot].content;
  }
  Pass pass(std::uint16_t slot, bool retransmission) const {
    const Slot& s = slots_[slot];
    return {slot, s.epoch, s.fingerprint, s.words, s.exponents, content(slot).place.phase, retransmission};
  }

  // Whether a result of the slot's pass is one that this pass can have.
  bool matches(const Result& result) const {
    const Slot& s = slots_[result.slot];
    return result.fingerprint == s.fingerprint && result.words == s.words && result.exponents == s.exponents;
  }

  // The slot's pass has its result, which says this of the announced chunk. Goes on to the slot's next pass; false if
  // there is none, and the slot is idle.
  bool advance(std::uint16_t slot, const Announced& announced);

  // One more chunk of the collective has its results with every local device. True if it was the last one.
  bool chunk_done(std::uint64_t collective) {
    Entry& e = collectives_[index(collective)];
    JAXINA_ASSERT(e.chunks_done < e.layout.chunks());
    return ++e.chunks_done == e.layout.chunks();
  }

  bool idle() const { return collectives_.empty(); }
  bool has_completed() const {
    return !idle() && collectives_.front().chunks_done == collectives_.front().layout.chunks();
  }
  // Drops the completed collectives at the front, and returns how many.
  std::size_t pop_completed();
  // Chunks done and in all of the oldest collective.
  struct Progress {
    std::size_t done, total;
  };
  Progress progress() const {
    return idle() ? Progress{0, 0} : Progress{collectives_.front().chunks_done, collectives_.front().layout.chunks()};
  }

 private:
  struct Entry {
    Entry(Layout l, std::size_t s) : layout(std::move(l)), start(s) {}
    Layout layout;
    std::size_t start;  // the slot of chunk 0
    std::size_t chunks_done = 0;
  };
  struct Slot {
    Content content;                // of the current pass; if idle, only the next collective to look at, and no layout
    std::uint32_t epoch = 0;        // of the current, or else the next pass
    std::uint32_t fingerprint = 0;  // of the current pass, as the following two
    std::uint16_t words = 0;
    std::uint8_t exponents = 0;
  };

  std::size_t index(std::uint64_t collective) const {
    JAXINA_ASSERT(collective - first_sequence_ < collectives_.size());
    return static_cast<std::size_t>(collective - first_sequence_);
  }
  bool start_next_collective(Slot& slot);
  void enter(Slot& slot, const Announced& exponents);

  std::vector<Slot> slots_;
  std::deque<Entry> collectives_;     // appended and not yet popped
  std::uint64_t first_sequence_ = 0;  // of collectives_.front()
  std::size_t next_start_ = 0;
};

}  // namespace jaxina
