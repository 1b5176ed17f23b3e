// The stream: which pass each slot is in, and what happens when a result, a timeout or a new collective comes.
// What the passes carry is in worker_payload.cc.
#include "rdma_engine/worker/worker.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

namespace jaxina {

Worker::Worker(const WorkerConfig& config, const numerics::Codec& codec)
    : config_(config),
      codec_(codec),
      scale_(numerics::scale_for(config.devices)),
      slots_(config.geometry.slots),
      exponents_(std::size_t{config.geometry.slots} * config.geometry.blocks_per_chunk),
      paths_(config.paths, SendOrder(2 * std::size_t{config.geometry.slots} + config.timer.reordering)),
      timer_(config.timer),
      window_(config.window, config.geometry.slots) {
  ready_.reserve(config.geometry.slots);
  silent_.reserve(config.geometry.slots);
}

void Worker::submit_contributions(std::vector<Collective> contributions) {
  const std::size_t s = config_.geometry.slots;
  collectives_.emplace_back(Layout(std::move(contributions), config_.geometry), next_start_);
  if (const Layout& layout = collectives_.back().layout; layout.on_devices() && !devices_) {
    std::vector<TensorDevice*> devices;
    for (std::size_t d = 0; d < layout.devices(); ++d) devices.push_back(layout.device(d));
    devices_ = std::make_unique<DevicePayload>(std::move(devices), config_.devices, config_.geometry, config_.memory);
  }
  const std::size_t used = std::min(s, collectives_.back().layout.chunks());
  for (std::size_t offset = 0; offset < used; ++offset) {
    const std::size_t slot = (next_start_ + offset) % s;
    if (slots_[slot].state == SlotPhase::kIdle) start_next_collective(slot);
  }
  // After its last chunk's slot, which is also the order in which it leaves the slots: a worker that submits the next
  // collective early and one that does so late then send its chunks in the same order.
  next_start_ = (next_start_ + collectives_.back().layout.chunks()) % s;
}

bool Worker::start_next_collective(std::size_t index) {
  const std::size_t s = config_.geometry.slots;
  Slot& slot = slots_[index];
  slot.state = SlotPhase::kIdle;
  slot.collective = std::max(slot.collective, first_sequence_);
  for (; slot.collective < first_sequence_ + collectives_.size(); ++slot.collective) {
    const Entry& candidate = entry(slot.collective);
    const std::size_t offset = (index + s - candidate.start) % s;
    if (offset >= candidate.layout.chunks()) continue;
    slot.chunk = offset;
    slot.phase = candidate.layout.has_exponents() ? Phase::kLookAhead : Phase::kData;
    prepare(index);
    return true;
  }
  return false;
}

// The slot's next pass is known: it can be sent as soon as its payload is there.
void Worker::prepare(std::size_t index) {
  if (!devices_) return make_ready(index);
  // Also where the tensors lie here: a device may still read the slot's last result, which stays only until this pass is sent.
  const Slot& slot = slots_[index];
  slots_[index].state = SlotPhase::kProducing;
  if (entry(slot.collective).layout.on_devices()) produce(index);
  devices_->mark({static_cast<std::uint16_t>(index), true, false, slot.collective});
}

void Worker::ask_devices() {
  devices_->progress([this](const DevicePayload::Milestone& milestone) {
    if (milestone.consumed) ++entry(milestone.collective).chunks_done;
    if (milestone.produced) make_ready(milestone.slot);
  });
}

void Worker::make_ready(std::size_t index) {
  Slot& slot = slots_[index];
  slot.state = SlotPhase::kReady;
  if (slot.queued) return;
  slot.queued = true;
  ready_.push_back({slot.collective, slot.chunk, slot.phase, static_cast<std::uint16_t>(index)});
  std::push_heap(ready_.begin(), ready_.end(), std::greater<>());
}

std::optional<Pass> Worker::next_pass(Nanoseconds now) {
  if (devices_) ask_devices();
  while (!ready_.empty() && in_flight_ < window_.passes()) {
    const std::size_t index = ready_.front().slot;
    std::pop_heap(ready_.begin(), ready_.end(), std::greater<>());
    ready_.pop_back();
    Slot& slot = slots_[index];
    slot.queued = false;
    if (slot.state != SlotPhase::kReady) continue;  // its result came while it waited to be sent again
    const Pass pass = describe(index);
    slot.state = SlotPhase::kInFlight;
    slot.sent = now;
    slot.order = path(index).add(static_cast<std::uint16_t>(index));
    if (slot.attempts == 0) {
      slot.first_order = slot.order;
      std::tie(slot.fingerprint, slot.words, slot.exponents) = std::tie(pass.fingerprint, pass.words, pass.exponents);
    }
    if (pass.retransmission) ++retransmissions_;
    if (recorder_) record(pass.retransmission ? TraceEvent::Kind::kSentAgain : TraceEvent::Kind::kSent, index, now);
    ++slot.attempts;
    ++in_flight_;
    next_deadline_ = in_flight_ == 1 ? due(index) : std::min(next_deadline_, due(index));
    return pass;
  }
  return std::nullopt;
}

Pass Worker::describe(std::size_t index) const {
  const Slot& slot = slots_[index];
  const Layout& layout = entry(slot.collective).layout;
  Pass pass;
  pass.slot = static_cast<std::uint16_t>(index);
  pass.epoch = slot.epoch;
  pass.fingerprint = mix(mix(mix(layout.fingerprint(), slot.collective), slot.chunk), static_cast<std::uint64_t>(slot.phase));
  pass.words = slot.phase == Phase::kLookAhead ? 0 : static_cast<std::uint16_t>(layout.words_in(slot.chunk));
  const std::optional<std::size_t> announced = announced_chunk(slot);
  pass.exponents = announced ? static_cast<std::uint8_t>(layout.blocks_in(*announced)) : 0;
  pass.phase = slot.phase;
  pass.retransmission = slot.attempts > 0;
  return pass;
}

std::optional<std::size_t> Worker::announced_chunk(const Slot& slot) const {
  const Layout& layout = entry(slot.collective).layout;
  if (!layout.has_exponents()) return std::nullopt;
  if (slot.phase != Phase::kData) return slot.chunk;
  const std::size_t next = slot.chunk + config_.geometry.slots;
  return next < layout.chunks() ? std::optional(next) : std::nullopt;
}

ResultVerdict Worker::on_result(const Result& result, Nanoseconds now) {
  const ResultVerdict verdict = judge(result);
  if (verdict == ResultVerdict::kAccepted) {
    accept(result, false, now);
  } else if (recorder_) {
    recorder_->add({.kind = TraceEvent::Kind::kStale, .slot = result.slot, .epoch = result.epoch, .time = now});
  }
  return verdict;
}

ResultVerdict Worker::exchange(const Pass& pass, std::uint8_t* exponents, bool merge, std::uint32_t* words,
                               numerics::Store store, const Result& result, Nanoseconds now) {
  const ResultVerdict verdict = judge(result);
  const bool decoded = verdict == ResultVerdict::kAccepted && exchange_data(pass, exponents, merge, words, store, result);
  if (!decoded) {
    fill_exponents(pass, exponents, merge);
    fill_words(pass, words, store);
  }
  if (verdict == ResultVerdict::kAccepted) accept(result, decoded, now);
  return verdict;
}

ResultVerdict Worker::judge(const Result& result) const {
  if (result.slot >= slots_.size()) return ResultVerdict::kContradicts;
  const Slot& slot = slots_[result.slot];
  const bool awaited = slot.state == SlotPhase::kInFlight || (slot.state == SlotPhase::kReady && slot.attempts > 0);
  if (!awaited || result.epoch != slot.epoch) return ResultVerdict::kStale;
  if (result.fingerprint != slot.fingerprint || result.words != slot.words || result.exponents != slot.exponents) {
    return ResultVerdict::kContradicts;
  }
  return ResultVerdict::kAccepted;
}

void Worker::accept(const Result& result, bool decoded, Nanoseconds now) {
  Slot& slot = slots_[result.slot];
  if (recorder_) record(TraceEvent::Kind::kResult, result.slot, now);
  if (slot.state == SlotPhase::kInFlight) --in_flight_;
  if (slot.attempts == 1) {
    timer_.sample(now - slot.sent);
    window_.on_result(now - slot.sent);
  }
  // What was sent before it has been overtaken, so it may be due sooner.
  silences_ = 0;
  probes_ = 1;
  next_probe_ = 0;
  next_deadline_ = std::min(next_deadline_, now + timer_.timeout());
  slot.attempts = 0;
  slot.counted = false;
  ++slot.epoch;
  switch (slot.phase) {
    case Phase::kLookAhead:
      std::copy_n(result.exponent_data, result.exponents, exponents(result.slot));
      slot.phase = phase_for(result.slot, result.exponents);
      prepare(result.slot);
      break;
    case Phase::kFlags:
      decode_flags(result.slot, result);
      std::copy_n(result.exponent_data, result.exponents, exponents(result.slot));
      slot.phase = Phase::kData;
      prepare(result.slot);
      break;
    case Phase::kData:
      if (!decoded) decode_data(result.slot, result);
      finish_data(result.slot, result);
      break;
  }
  // Which transmission a result answers is not known; the first one is the careful guess. (To take the last one makes
  // whatever was sent before it look overtaken: one needless retransmission then brings on a whole pool of them.)
  resend_overtaken(result.slot, slot.first_order);
}

Phase Worker::phase_for(std::size_t index, std::size_t blocks) const {
  const std::uint8_t* bytes = exponents(index);
  const bool finite = std::find(bytes, bytes + blocks, numerics::kNonFiniteExponent) == bytes + blocks;
  return finite ? Phase::kData : Phase::kFlags;
}

void Worker::finish_data(std::size_t index, const Result& result) {
  Slot& slot = slots_[index];
  Entry& current = entry(slot.collective);
  if (!current.layout.on_devices()) {  // else once they have the result
    // Once, not after every chunk: it waits until memory has taken all that was streamed.
    if (++current.chunks_done == current.layout.chunks()) codec_.end_streaming();
  }
  slot.chunk += config_.geometry.slots;
  if (slot.chunk >= current.layout.chunks()) {
    ++slot.collective;
    start_next_collective(index);
    return;
  }
  std::copy_n(result.exponent_data, result.exponents, exponents(index));
  slot.phase = phase_for(index, result.exponents);
  prepare(index);
}

void Worker::resend_overtaken(std::size_t index, std::uint64_t order) {
  const auto awaited = [&](std::uint16_t other, std::uint64_t its_order) {
    return slots_[other].state == SlotPhase::kInFlight && slots_[other].order == its_order;
  };
  path(index).on_result(order, timer_.reordering(), awaited, [&](std::uint16_t lost) {
    // What is counted waits for another worker; only its result can be lost, for which there is time.
    if (!slots_[lost].counted) send_again(lost);
  });
}

void Worker::send_again(std::size_t index) {
  --in_flight_;
  make_ready(index);
}

void Worker::on_pending(std::uint16_t index, std::uint32_t epoch, Nanoseconds now) {
  if (index >= slots_.size()) return;
  Slot& slot = slots_[index];
  if (slot.state != SlotPhase::kInFlight || slot.epoch != epoch) return;
  slot.counted = true;
  slot.sent = now;
  probes_ = 1;
  if (recorder_) record(TraceEvent::Kind::kPending, index, now);
}

// When the slot's pass is taken for lost.
Nanoseconds Worker::due(std::size_t index) const {
  const Slot& slot = slots_[index];
  const Nanoseconds expires = slot.sent + timer_.timeout();
  return path(index).answered_after(slot.order) ? expires : std::max(expires, next_probe_);
}

void Worker::on_tick(Nanoseconds now) {
  if (in_flight_ == 0 || now < next_deadline_) return;
  silent_.clear();
  for (std::size_t index = 0; index < slots_.size(); ++index) {
    if (slots_[index].state != SlotPhase::kInFlight || due(index) > now) continue;
    if (path(index).answered_after(slots_[index].order)) {
      send_again(index);
    } else {
      silent_.push_back(static_cast<std::uint16_t>(index));
    }
  }
  if (!silent_.empty()) probe(now);
  next_deadline_ = std::numeric_limits<Nanoseconds>::max();
  for (std::size_t index = 0; index < slots_.size(); ++index) {
    if (slots_[index].state == SlotPhase::kInFlight) next_deadline_ = std::min(next_deadline_, due(index));
  }
}

// Nothing that was sent after these passes has been answered. Most likely another worker is late, and all of them are
// waiting at the aggregator: to send them again would only keep it from its work. So only the oldest one that is not known
// to be counted is sent again, and twice as many each time that no notice comes. Until a result comes, the time
// between probes doubles (RFC 6298, 5.5 to 5.7).
void Worker::probe(Nanoseconds now) {
  const auto first = [&](std::uint16_t a, std::uint16_t b) {
    return std::tie(slots_[a].counted, slots_[a].sent) < std::tie(slots_[b].counted, slots_[b].sent);
  };
  const std::size_t count = std::min(probes_, silent_.size());
  std::partial_sort(silent_.begin(), silent_.begin() + static_cast<std::ptrdiff_t>(count), silent_.end(), first);
  for (std::size_t i = 0; i < count; ++i) send_again(silent_[i]);
  probes_ = std::min(2 * probes_, slots_.size());
  silences_ = std::min(silences_ + 1, 16u);
  next_probe_ = now + std::min(timer_.timeout() << silences_, timer_.maximum());
  window_.on_silence();
}

std::optional<Nanoseconds> Worker::next_deadline() const {
  return in_flight_ > 0 ? std::optional(next_deadline_) : std::nullopt;
}

void Worker::record(TraceEvent::Kind kind, std::size_t index, Nanoseconds now) const {
  const Slot& slot = slots_[index];
  recorder_->add({.kind = kind,
                  .detail = static_cast<std::uint8_t>(slot.phase),
                  .slot = static_cast<std::uint16_t>(index),
                  .epoch = slot.epoch,
                  .chunk = static_cast<std::uint32_t>(slot.chunk),
                  .collective = slot.collective,
                  .time = now});
}

std::size_t Worker::pop_completed() {
  std::size_t popped = 0;
  while (has_completed()) {
    collectives_.pop_front();
    ++first_sequence_;
    ++popped;
  }
  return popped;
}

std::vector<Pass> Worker::passes_in_flight() const {
  std::vector<std::uint16_t> sent;
  for (std::size_t index = 0; index < slots_.size(); ++index) {
    if (slots_[index].attempts > 0) sent.push_back(static_cast<std::uint16_t>(index));
  }
  std::sort(sent.begin(), sent.end(), [&](std::uint16_t a, std::uint16_t b) { return slots_[a].sent > slots_[b].sent; });
  std::vector<Pass> passes;
  for (const std::uint16_t index : sent) passes.push_back(describe(index));
  return passes;
}

Worker::Progress Worker::progress() const {
  if (collectives_.empty()) return {0, 0};
  return {collectives_.front().chunks_done, collectives_.front().layout.chunks()};
}

}  // namespace jaxina
