// RingMemory: where the messages of a ring lie in a worker's receive memory, and how an immediate names them. Results
// come first, kPlaces for each slot, as roce::MessageLayout has them. Behind them are as many places for partial sums,
// which only a ring without a switch has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "rdma_engine/base/assert.h"
#include "rdma_engine/errors.h"
#include "rdma_engine/messages/pass_message.h"
#include "rdma_engine/messages/queue_pairs.h"

namespace jaxina::rc {

struct RingPlace {
  std::size_t slot = 0;
  std::uint32_t epoch = 0;
  bool is_partial = false;  // a partial sum, not a result
  std::size_t begins = 0;   // bytes from the start of the place, as roce::MessageLayout::begins_in_place()
};

class RingMemory {
 public:
  // Throws Error(kInvalidArgument) if there are too many slots.
  explicit RingMemory(const JobShape& shape) : layout_(shape, roce::Summed::kByPacket), slots_(shape.slots()) {
    if (slots_ <= roce::kRingSlots) return;
    throw Error(ErrorCode::kInvalidArgument, "a ring has at most " + std::to_string(roce::kRingSlots) + " slots, not " +
                                                 std::to_string(slots_) + ": lower JAXINA_SLOTS");
  }

  const roce::MessageLayout& layout() const { return layout_; }
  std::size_t slots() const { return slots_; }
  std::size_t send_bytes() const { return slots_ * layout_.stride(); }
  std::size_t receive_bytes() const { return 2 * places() * layout_.stride(); }

  std::size_t offset_of(const RingPlace& place) const {
    const std::size_t half = place.is_partial ? places() * layout_.stride() : 0;
    return half + layout_.result_place(place.slot, place.epoch) + place.begins;
  }
  // The place of the result of a pass, whose name is roce::address_of(), and whose message has so many bytes.
  RingPlace place_of(std::uint64_t pass, std::size_t bytes) const {
    const std::optional<roce::PassName> name = roce::pass_at(pass);
    JAXINA_ASSERT(name && name->slot < slots_ && name->format == wire::Format::kInt32);
    return {.slot = name->slot,
            .epoch = name->epoch,
            .begins = layout_.exponents_in_place() + wire::padded(name->exponents) - bytes};
  }

  std::uint32_t immediate_of(const RingPlace& place, std::uint32_t fingerprint) const {
    const roce::RingKind kind = place.is_partial ? roce::RingKind::kPartial : roce::RingKind::kAsSent;
    return roce::ring_immediate(place.slot, kind, fingerprint);
  }
  bool is_of(std::uint32_t immediate, std::uint32_t fingerprint) const {
    return ((immediate ^ fingerprint) & layout_.fingerprint_bits()) == 0;
  }
  // A message that has come. Its queue is its slot, which may be none of this job's if the sender is not.
  static roce::MessageQueues::Arrival arrival_of(std::uint32_t immediate, std::size_t bytes) {
    return {roce::ring_slot_of(immediate), immediate, bytes};
  }

 private:
  std::size_t places() const { return slots_ * roce::MessageLayout::kPlaces; }

  roce::MessageLayout layout_;
  std::size_t slots_;
};

}  // namespace jaxina::rc
