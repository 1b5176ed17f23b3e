#include "rdma_engine/transport/rc/plain_ring.h"

#include <algorithm>

#include "rdma_engine/base/assert.h"
#include "rdma_engine/messages/add_message.h"

namespace jaxina::rc {

PlainRing::PlainRing(RingLink& link, const JobShape& shape, std::uint32_t worker)
    : link_(link), layout_(shape), worker_(worker), workers_(shape.workers()), slots_(shape.slots()) {
  JAXINA_ASSERT(workers_ >= 2 && worker < workers_);
}

std::uint32_t PlainRing::position(std::size_t slot) const {
  const std::uint32_t first = static_cast<std::uint32_t>((slot + slots_[slot].epoch) % workers_);
  return (worker_ + workers_ - first) % workers_;
}

RingPlace PlainRing::place(std::size_t slot, bool is_partial) const {
  const Slot& of = slots_[slot];
  return {.slot = slot,
          .epoch = of.epoch,
          .is_partial = is_partial,
          .begins = layout_.layout().exponents_in_place() + of.exponents - of.own.size()};
}

void PlainRing::post_write(std::size_t queue, std::span<const std::uint8_t> head, std::span<const std::uint8_t> tail,
                           std::uint64_t remote_address, std::uint32_t fingerprint) {
  JAXINA_ASSERT(queue < slots_.size() && tail.empty());
  const RingPlace result = layout_.place_of(remote_address, head.size());
  Slot& slot = slots_[queue];
  slot.epoch = result.epoch;
  slot.exponents = result.begins + head.size() - layout_.layout().exponents_in_place();
  slot.own = head;
  slot.fingerprint = fingerprint;
  if (position(queue) == 0) return link_.post(place(queue, true), head, fingerprint);
  slot.awaits_partial = true;
  if (slot.partial) on_partial(queue, *std::exchange(slot.partial, std::nullopt));
}

Status PlainRing::poll(std::vector<Arrival>& arrivals) {
  came_.clear();
  Status status = link_.poll(came_);
  for (const Arrival& arrival : came_) {
    const bool is_partial = roce::ring_kind_of(arrival.immediate) == roce::RingKind::kPartial;
    if (arrival.queue >= slots_.size()) for_session_.push_back(arrival);
    else if (is_partial) on_partial(arrival.queue, arrival);
    else on_result(arrival);
  }
  arrivals.insert(arrivals.end(), for_session_.begin(), for_session_.end());
  for_session_.clear();
  return status;
}

bool PlainRing::is_mine(std::size_t slot, const Arrival& arrival) const {
  return layout_.is_of(arrival.immediate, slots_[slot].fingerprint) && arrival.bytes == slots_[slot].own.size();
}

void PlainRing::on_partial(std::size_t slot, const Arrival& partial) {
  Slot& of = slots_[slot];
  if (!of.awaits_partial) {
    of.partial = partial;
    return;
  }
  of.awaits_partial = false;
  if (is_mine(slot, partial)) return add_own(slot);
  for_session_.push_back({slot, partial.immediate, partial.bytes});
}

void PlainRing::add_own(std::size_t slot) {
  const Slot& of = slots_[slot];
  const std::size_t bytes = of.own.size();
  const std::span<std::uint8_t> partial = link_.at(place(slot, true), bytes);
  roce::add_message(partial, of.own, bytes - of.exponents);
  if (position(slot) + 1 < workers_) return link_.post(place(slot, true), partial, of.fingerprint);
  const std::span<std::uint8_t> result = link_.at(place(slot, false), bytes);
  std::copy(partial.begin(), partial.end(), result.begin());
  link_.post(place(slot, false), result, of.fingerprint);
  for_session_.push_back({slot, of.fingerprint, bytes});
}

void PlainRing::on_result(const Arrival& result) {
  const std::size_t slot = result.queue;
  // The worker before the last one is the last to get the result.
  if (is_mine(slot, result) && position(slot) + 2 != workers_) {
    link_.post(place(slot, false), link_.at(place(slot, false), result.bytes), slots_[slot].fingerprint);
  }
  for_session_.push_back(result);
}

}  // namespace jaxina::rc
