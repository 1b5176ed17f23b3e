#include "rdma_engine/worker/worker.h"

#include "rdma_engine/base/narrow.h"

namespace jaxina {

Worker::Worker(const WorkerConfig& config, const numerics::Codec& codec)
    : shape_(config.shape),
      packing_(config.packing),
      stream_(config.shape.slots()),
      ready_(config.shape.slots()),
      loss_(config.shape.slots(), config.timer, config.paths, config.window),
      payload_(config.shape, config.index, config.memory, codec) {}

void Worker::submit_contributions(std::vector<Collective> contributions) {
  Layout layout(std::move(contributions), shape_, packing_);
  payload_.admit(layout);
  stream_.append(std::move(layout), [this](std::uint16_t slot) { prepare(slot); });
}

// Called when the slot's next pass is known. The pass can be sent once its payload is there.
void Worker::prepare(std::uint16_t slot) {
  if (payload_.produce(stream_.content(slot))) ready_.push(slot, stream_.content(slot).place);
}

std::optional<Pass> Worker::next_pass(Nanoseconds now) {
  const bool busy = has_ready() && loss_.has_room();
  payload_.progress(
      busy, [this](std::uint16_t slot) { ready_.push(slot, stream_.content(slot).place); },
      [this](std::uint64_t collective) { stream_.chunk_done(collective); });
  if (!loss_.has_room() && !ready_precedes_in_flight()) return std::nullopt;
  const std::optional<std::uint16_t> slot = ready_.pop();
  if (!slot) return std::nullopt;
  const Pass pass = stream_.pass(*slot, loss_.times_sent(*slot));
  loss_.on_sent(*slot, now);
  if (packing_ != Packing::kWhole) bytes_sent_[static_cast<std::size_t>(pass.format)] += 4 * pass.words;
  if (recorder_) record(pass.retransmission() ? TraceEvent::Kind::kSentAgain : TraceEvent::Kind::kSent, *slot, now);
  return pass;
}

bool Worker::ready_precedes_in_flight() {
  const std::optional<std::uint16_t> first = ready_.first();
  if (!first) return false;
  const Place& place = stream_.content(*first).place;
  for (std::size_t i = 0; i < stream_.slots(); ++i) {
    const auto slot = narrow<std::uint16_t>(i);
    if (loss_.is_in_flight(slot) && stream_.content(slot).place < place) return false;
  }
  return true;
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
  const bool decoded =
      verdict == ResultVerdict::kAccepted && payload_.exchange(content(pass), pass.words, exponents, merge, words,
                                                               store, stream_.content(result.slot), result);
  if (!decoded) {
    fill_exponents(pass, exponents, merge);
    fill_words(pass, words, store);
  }
  if (verdict == ResultVerdict::kAccepted) accept(result, decoded, now);
  return verdict;
}

ResultVerdict Worker::judge(const Result& result) const {
  if (result.slot >= stream_.slots()) return ResultVerdict::kContradicts;
  if (!loss_.was_sent(result.slot) || result.epoch != stream_.epoch(result.slot)) return ResultVerdict::kStale;
  return stream_.matches(result) ? ResultVerdict::kAccepted : ResultVerdict::kContradicts;
}

void Worker::accept(const Result& result, bool decoded, Nanoseconds now) {
  const std::uint16_t slot = result.slot;
  if (recorder_) record(TraceEvent::Kind::kResult, slot, now);
  ready_.withdraw(slot);
  loss_.on_result(slot, now, result.marked,
                  [this](std::uint16_t lost) { ready_.push(lost, stream_.content(lost).place); });
  if (decoded || decode(result)) finish_chunk(stream_.content(slot).place.collective);
  if (stream_.advance(slot, payload_.keep_exponents(result))) prepare(slot);
}

// Returns true if that completes a chunk of the collective.
bool Worker::decode(const Result& result) {
  const Content& pass = stream_.content(result.slot);
  switch (pass.place.phase) {
    case Phase::kLookAhead: return false;
    case Phase::kFlags: return payload_.decode_flags(pass, result), false;
    case Phase::kData: return payload_.decode_data(pass, result);
  }
  return false;
}

void Worker::on_pending(std::uint16_t slot, std::uint32_t epoch, Nanoseconds now, bool asked) {
  if (slot >= stream_.slots() || epoch != stream_.epoch(slot) || !loss_.on_pending(slot, now, asked)) return;
  if (recorder_) record(TraceEvent::Kind::kPending, slot, now);
}

void Worker::on_not_counted(std::uint16_t slot, std::uint32_t epoch) {
  if (slot >= stream_.slots() || epoch != stream_.epoch(slot)) return;
  loss_.on_not_counted(slot, [this](std::uint16_t lost) { ready_.push(lost, stream_.content(lost).place); });
}

void Worker::on_turned_away(std::uint16_t slot, std::uint32_t epoch) {
  if (slot >= stream_.slots() || epoch != stream_.epoch(slot)) return;
  loss_.on_turned_away(slot, [this](std::uint16_t lost) { ready_.push(lost, stream_.content(lost).place); });
}

void Worker::on_rerouted() {
  loss_.on_rerouted([this](std::uint16_t lost) { ready_.push(lost, stream_.content(lost).place); });
}

void Worker::on_tick(Nanoseconds now) {
  loss_.on_tick(now, [this](std::uint16_t lost) { ready_.push(lost, stream_.content(lost).place); });
}

void Worker::record(TraceEvent::Kind kind, std::uint16_t slot, Nanoseconds now) const {
  const Place& place = stream_.content(slot).place;
  recorder_->add({.kind = kind,
                  .detail = static_cast<std::uint8_t>(place.phase),
                  .slot = slot,
                  .epoch = stream_.epoch(slot),
                  .chunk = narrow<std::uint32_t>(place.chunk),
                  .collective = place.collective,
                  .time = now});
}

std::vector<Pass> Worker::passes_in_flight() const {
  std::vector<Pass> passes;
  for (const std::uint16_t slot : loss_.latest_first()) passes.push_back(stream_.pass(slot, loss_.times_sent(slot)));
  return passes;
}

}  // namespace jaxina
