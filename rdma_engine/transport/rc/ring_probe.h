// RingProbe: finds out at a ring's start whether the switch that was promised adds. Before any data, each worker sends
// passes of a check alone through slot 0. What comes back must be the sum of all workers' checks.
//
// To the switch these are passes like all others. There is one for each place of a slot, so the worker's own passes
// then begin at the place at which they would have begun. Each is sent when the one before has come back, so they are
// as safe as other passes against loss and late copies. A neighbour's data comes behind its probes, because a
// connection keeps the order.
#pragma once

#include <cstdint>
#include <optional>

#include "rdma_engine/base/assert.h"
#include "rdma_engine/messages/result_check.h"
#include "rdma_engine/transport/rc/ring_link.h"

namespace jaxina::rc {

class RingProbe {
 public:
  static constexpr std::size_t kBytes = sizeof(roce::ResultCheck);

  // The link outlives this object.
  RingProbe(RingLink& link, const JobShape& shape, std::uint32_t job, std::uint64_t secret)
      : link_(link),
        begins_(RingMemory(shape).layout().exponents_in_place() - kBytes),
        workers_(shape.workers()),
        name_(
            mix(mix(job, static_cast<std::uint32_t>(secret & 0xffffffff)), static_cast<std::uint32_t>(secret >> 32))) {}

  bool is_over() const { return epoch_ == roce::MessageLayout::kPlaces; }
  bool is_under_way() const { return is_under_way_; }

  // Posts the next pass unless it is under way.
  void post() {
    if (is_over() || is_under_way_) return;
    is_under_way_ = true;
    const std::span<std::uint8_t> bytes = link_.send_memory().first(kBytes);
    roce::ResultCheck::of(nullptr, 0, name_, epoch_, 1).write(reinterpret_cast<std::uint32_t*>(bytes.data()));
    link_.post(place(), bytes, name_);
  }
  // Takes a message that a switch has summed. Returns how many workers' checks of this pass it holds; nothing if it is
  // no sum of them.
  std::optional<std::uint32_t> take(const roce::MessageQueues::Arrival& arrival) {
    JAXINA_ASSERT(!is_over() && is_under_way_);
    const bool is_awaited =
        arrival.queue == 0 && arrival.bytes == kBytes && ((arrival.immediate ^ name_) & roce::kRingFingerprint) == 0;
    const auto* words = reinterpret_cast<const std::uint32_t*>(link_.at(place(), kBytes).data());
    const std::uint32_t epoch = epoch_++;
    is_under_way_ = false;
    if (!is_awaited) return std::nullopt;
    return roce::ResultCheck::read(words).contributions(nullptr, 0, name_, epoch, workers_);
  }

 private:
  RingPlace place() const { return {.slot = 0, .epoch = epoch_, .begins = begins_}; }

  RingLink& link_;
  std::size_t begins_;
  std::uint32_t workers_, name_, epoch_ = 0;
  bool is_under_way_ = false;
};

}  // namespace jaxina::rc
