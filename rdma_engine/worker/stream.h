// Stream: the stream of collectives, cut into the passes of slots. It says which pass each slot is in, which comes
// next, and which collective is complete. It knows neither what is sent or lost nor what passes carry.
//
// Chunk c of a collective belongs to slot (start + c) mod s. The start moves on with every collective, so small ones
// overlap. Every worker derives the same passes for every slot from the order of its collectives alone:
//   look-ahead   no data; the exponents of the slot's first chunk                 (only if a tensor has a float type)
//   flags        which elements are NaN or Inf, with the finite values' exponents (only if a block holds any)
//   data         the chunk, with the exponents of the slot's next chunk
// Each pass takes the slot's next epoch.
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

  // Appends a collective. Calls started(slot) for each slot that was idle and now has a pass, in the order of their
  // chunks.
  template <typename Started>
  void append(Layout layout, Started started) {
    const std::size_t s = slots_.size(), start = next_start_, chunks = layout.chunks();
    collectives_.emplace_back(std::move(layout), start);
    // The next collective starts after this one's last chunk. Slots also finish this collective in that order. So a
    // worker sends the next collective's chunks in the same order, whether it is submitted early or late.
    next_start_ = (start + chunks) % s;
    for (std::size_t offset = 0; offset < std::min(s, chunks); ++offset) {
      const auto slot = narrow<std::uint16_t>((start + offset) % s);
      if (!slots_[slot].content.layout && start_next_collective(slots_[slot])) started(slot);
    }
  }

  std::size_t slots() const { return slots_.size(); }
  // The epoch of the slot's current pass, or of its next one if the slot is idle.
  std::uint32_t epoch(std::uint16_t slot) const { return slots_[slot].epoch; }
  // The content of the slot's current pass; the slot must have one. Returned by reference: a copy would load fields
  // that were just stored one by one as one vector, which stalls the processor (CMakeLists.txt).
  const Content& content(std::uint16_t slot) const {
    JAXINA_ASSERT(slots_[slot].content.layout);
    return slots_[slot].content;
  }
  Pass pass(std::uint16_t slot, std::uint32_t sent_before) const {
    const Slot& s = slots_[slot];
    return {slot, s.epoch, s.fingerprint, s.words, s.exponents, content(slot).place.phase, s.format, sent_before};
  }

  // Whether the result can be one of the slot's current pass.
  bool matches(const Result& result) const {
    const Slot& s = slots_[result.slot];
    return result.fingerprint == s.fingerprint && result.words == s.words && result.exponents == s.exponents &&
           result.format == s.format;
  }

  // The slot's pass has its result, which says `announced` about the announced chunk. Moves to the slot's next pass.
  // Returns false if there is none, so the slot is idle.
  bool advance(std::uint16_t slot, const Announced& announced);

  // All local devices have the results of one more chunk of the collective. Returns true if it was the last chunk.
  bool chunk_done(std::uint64_t collective) {
    Entry& e = collectives_[index(collective)];
    JAXINA_ASSERT(e.chunks_done < e.layout.chunks());
    return ++e.chunks_done == e.layout.chunks();
  }

  bool idle() const { return collectives_.empty(); }
  bool has_completed() const {
    return !idle() && collectives_.front().chunks_done == collectives_.front().layout.chunks();
  }
  // Removes the completed collectives at the front. Returns how many.
  std::size_t pop_completed();
  // The number of chunks of the oldest collective: done, and in total.
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
    Content content;  // of the current pass; if idle: no layout, and place.collective is the next collective to look at
    std::uint32_t epoch = 0;        // of the current pass; if idle: of the next one
    std::uint32_t fingerprint = 0;  // fingerprint, words, exponents and format: of the current pass
    std::uint16_t words = 0;
    std::uint8_t exponents = 0;
    wire::Format format = wire::Format::kInt32;
  };

  std::size_t index(std::uint64_t collective) const {
    JAXINA_ASSERT(collective - first_sequence_ < collectives_.size());
    return static_cast<std::size_t>(collective - first_sequence_);
  }
  bool start_next_collective(Slot& slot);
  void enter(Slot& slot, const Announced& exponents);

  std::vector<Slot> slots_;
  std::deque<Entry> collectives_;     // appended but not popped
  std::uint64_t first_sequence_ = 0;  // of collectives_.front()
  std::size_t next_start_ = 0;
};

}  // namespace jaxina
