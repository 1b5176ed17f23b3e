#include "rdma_engine/worker/stream.h"

namespace jaxina {

// Looks for the slot's next collective; the slot has finished its last one or was idle. Returns false if there is none.
bool Stream::start_next_collective(Slot& slot) {
  const std::size_t s = slots_.size();
  Content& content = slot.content;
  Place& place = content.place;
  content.layout = nullptr;
  place.collective = std::max(place.collective, first_sequence_);
  for (; place.collective < first_sequence_ + collectives_.size(); ++place.collective) {
    const Entry& candidate = collectives_[index(place.collective)];
    const std::size_t offset = (content.slot + s - candidate.start) % s;
    if (offset >= candidate.layout.chunks()) continue;
    content.layout = &candidate.layout;
    place.chunk = offset;
    place.phase = candidate.layout.has_exponents() ? Phase::kLookAhead : Phase::kData;
    enter(slot, {});
    return true;
  }
  return false;
}

bool Stream::advance(std::uint16_t index, const Announced& announced) {
  Slot& slot = slots_[index];
  Place& place = slot.content.place;
  JAXINA_ASSERT(slot.content.layout);
  ++slot.epoch;
  switch (place.phase) {
    case Phase::kLookAhead: place.phase = announced.non_finite ? Phase::kFlags : Phase::kData; break;
    case Phase::kFlags: place.phase = Phase::kData; break;
    case Phase::kData:
      place.chunk += slots_.size();
      if (place.chunk >= slot.content.layout->chunks()) {
        ++place.collective;
        return start_next_collective(slot);
      }
      if (announced.non_finite) place.phase = Phase::kFlags;
      break;
  }
  enter(slot, announced);
  return true;
}

// Computes the fingerprint and sizes of the slot's new pass from its place. The fingerprint includes a digest of the
// exponents. So if a worker has read a damaged result and would quantize with different exponents, its fingerprint
// differs; without this, the sum would be wrong.
void Stream::enter(Slot& slot, const Announced& exponents) {
  const Layout& layout = *slot.content.layout;
  const Place& place = slot.content.place;
  JAXINA_ASSERT(place.chunk < layout.chunks());
  slot.fingerprint = mix(mix(mix(layout.fingerprint(), place.collective), place.chunk),
                         static_cast<std::uint64_t>(place.phase) << 32 | exponents.digest);
  slot.words = 0;
  slot.format = wire::Format::kInt32;
  if (place.phase != Phase::kLookAhead) {
    slot.words = narrow<std::uint16_t>(layout.words_in(place.chunk, place.phase == Phase::kFlags));
    slot.format = layout.format_of(place.chunk, place.phase == Phase::kFlags);
  }
  // A chunk's exponents are announced ahead of it: by the look-ahead pass, or with the data of the slot's chunk before
  // it.
  const std::size_t announced = place.phase == Phase::kData ? place.chunk + slots_.size() : place.chunk;
  const bool announces = layout.has_exponents() && announced < layout.chunks();
  slot.content.announced = announces ? std::optional(announced) : std::nullopt;
  slot.exponents = announces ? narrow<std::uint8_t>(layout.blocks_in(announced)) : std::uint8_t{0};
}

std::size_t Stream::pop_completed() {
  std::size_t popped = 0;
  while (has_completed()) {
    collectives_.pop_front();
    ++first_sequence_;
    ++popped;
  }
  return popped;
}

}  // namespace jaxina
