#include "rdma_engine/worker/loss_control.h"

#include <limits>
#include <tuple>

namespace jaxina {

bool LossControl::on_pending(std::uint16_t slot, Nanoseconds now) {
  Slot& s = slots_[slot];
  if (!s.in_flight) return false;
  s.counted = true;
  s.sent = now;
  probes_ = 1;
  return true;
}

// Nothing that was sent after these passes has been answered. Most likely another worker is late, and all of them are
// waiting at the aggregator: to send them again would only keep it from its work. So only the oldest one that is not
// known to be counted is sent again, and twice as many each time that no notice comes. Until a result comes, the time
// between probes doubles (RFC 6298, 5.5 to 5.7). Returns how many; they are the first of silent_.
std::size_t LossControl::probe(Nanoseconds now) {
  const auto first = [&](std::uint16_t a, std::uint16_t b) {
    return std::tie(slots_[a].counted, slots_[a].sent) < std::tie(slots_[b].counted, slots_[b].sent);
  };
  // After an overflow loss is the likelier reason, and there is room for a window of them.
  const std::size_t probes = window_.recovers() ? std::max<std::size_t>(probes_, window_.passes()) : probes_;
  const std::size_t count = std::min(probes, silent_.size());
  std::partial_sort(silent_.begin(), silent_.begin() + static_cast<std::ptrdiff_t>(count), silent_.end(), first);
  probes_ = std::min(2 * probes_, slots_.size());
  silences_ = std::min(silences_ + 1, 16u);
  next_probe_ = now + std::min(timer_.timeout() << silences_, timer_.maximum());
  return count;
}

Nanoseconds LossControl::earliest_due() const {
  Nanoseconds earliest = std::numeric_limits<Nanoseconds>::max();
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
    if (slots_[slot].in_flight) earliest = std::min(earliest, due(narrow<std::uint16_t>(slot)));
  }
  return earliest;
}

std::vector<std::uint16_t> LossControl::latest_first() const {
  std::vector<std::uint16_t> sent;
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
    if (slots_[slot].attempts > 0) sent.push_back(narrow<std::uint16_t>(slot));
  }
  const auto later = [&](std::uint16_t a, std::uint16_t b) { return slots_[a].sent > slots_[b].sent; };
  std::sort(sent.begin(), sent.end(), later);
  return sent;
}

}  // namespace jaxina
