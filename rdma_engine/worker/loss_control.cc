#include "rdma_engine/worker/loss_control.h"

#include <limits>
#include <tuple>

namespace jaxina {

bool LossControl::on_pending(std::uint16_t slot, Nanoseconds now, bool asked) {
  Slot& s = slots_[slot];
  if (!s.in_flight) return false;
  s.counted = true;
  s.sent = now;
  if (asked) probes_ = 1;
  return true;
}

// Chooses the passes to send again after silence: nothing that was sent after the silent passes has been answered. Most
// likely another worker is late and the aggregator has all of them; sending them all again would only keep it busy. So
// the first probe sends one pass: the oldest that is not known to be counted. As long as no pending notice comes, each
// further probe sends twice as many. Until a result comes, the time between probes doubles (RFC 6298, 5.5 to 5.7).
// Returns how many passes to send; they are the first ones of silent_.
std::size_t LossControl::probe(Nanoseconds now) {
  const auto first = [&](std::uint16_t a, std::uint16_t b) {
    return std::tie(slots_[a].counted, slots_[a].sent) < std::tie(slots_[b].counted, slots_[b].sent);
  };
  // After an overflow, loss is the likelier reason, and the window has room for this many passes.
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
