#include "rdma_engine/aggregator/aggregator.h"

#include <algorithm>

#include "rdma_engine/aggregator/bytes_counter.h"
#include "rdma_engine/base/assert.h"
#include "rdma_engine/base/narrow.h"
#include "rdma_engine/numerics/wire_words.h"

namespace jaxina {
namespace {

std::size_t stride_for(const JobShape& shape, const AggregatorOptions& options) {
  return options.headroom + wire::padded(shape.exponents_per_pass()) +
         4 * (shape.words_per_pass() + options.extra_words);
}

// The number of slots in this shard.
std::size_t slots_in(const JobShape& shape, const Shard& shard) {
  return shard.index < shape.slots() ? (shape.slots() - 1 - shard.index) / shard.of + 1 : 0;
}

}  // namespace

Aggregator::Aggregator(const JobShape& shape, const AggregatorOptions& options, const numerics::Codec& codec)
    : shape_(shape),
      options_(options),
      codec_(codec),
      stride_(stride_for(shape, options)),
      slots_(slots_in(shape, options.shard)),
      sizes_(2 * slots_.size()),
      payload_(std::make_unique_for_overwrite<std::uint8_t[]>(2 * slots_.size() * stride_)),
      sums_(std::make_unique_for_overwrite<std::uint32_t[]>(2 * slots_.size() * shape.narrow_elements_per_pass())),
      scratch_(options.seal_packed != nullptr ? shape.words_per_pass() : 0) {
  JAXINA_ASSERT(options.shard.index < options.shard.of && options.headroom % 4 == 0);
  for (SlotState& slot : slots_) slot.reset(shape.workers(), options.first_epoch);
}

std::size_t Aggregator::bytes_for(const JobShape& shape, const AggregatorOptions& options) {
  const std::size_t sums = sizeof(std::uint32_t) * shape.narrow_elements_per_pass();
  return slots_in(shape, options.shard) *
         (2 * (stride_for(shape, options) + sums) + sizeof(SlotState) + 2 * sizeof(Size));
}

Answer Aggregator::on_update(const UpdateView& update) {
  if (update.worker >= shape_.workers()) return reject(Counter::kBadWorker);
  if (update.slot >= shape_.slots() || update.slot % options_.shard.of != options_.shard.index) {
    return reject(Counter::kBadSlot);
  }
  const std::size_t words = update.words.size(), extra = options_.extra_words;
  const bool whole = update.format == wire::Format::kInt32;
  if ((!whole && words < extra) ||
      !shape_.admits(update.format, words - std::min(words, extra), update.exponents.size())) {
    return reject(Counter::kTooLarge);
  }
  if (!ended_.ok()) {
    ++counters_[Counter::kAborted];
    return {Effect::kEnded};
  }
  return apply(update);
}

Aggregator::Size Aggregator::size_of(const UpdateView& update) {
  return {narrow<std::uint16_t>(update.words.size()), narrow<std::uint8_t>(update.exponents.size()), update.format};
}

Answer Aggregator::apply(const UpdateView& update) {
  SlotState& slot = slots_[place(update.slot)];
  const SlotVersion& current = slot.version(update.epoch);
  const Size held = sizes_[version_at(update.slot, update.epoch)];
  if (current.epoch == update.epoch && current.fingerprint == update.fingerprint && held != size_of(update)) {
    return reject(Counter::kMismatch);  // equal fingerprints imply equal sizes, so no worker sent this update
  }
  const std::uint32_t before = current.count;
  const Outcome outcome =
      apply_update(slot, shape_.workers(), {update.worker, update.epoch, update.fingerprint, update.group});
  switch (outcome.verdict) {
    case Verdict::kFirst:
    case Verdict::kAdd:
    case Verdict::kReplace:
      JAXINA_ASSERT(current.count <= shape_.workers());
      counters_[Counter::kUpdates] += outcome.verdict == Verdict::kFirst ? current.count : current.count - before;
      accept(update, outcome.verdict != Verdict::kAdd);
      if (!outcome.completes) return {Effect::kCounted, {}, &current.seen};
      complete(update);
      return {Effect::kCompleted, result_of(update)};
    case Verdict::kDuplicate: ++counters_[Counter::kDuplicates]; return {Effect::kPending, {}, &current.seen};
    case Verdict::kOverlap: ++counters_[Counter::kOverlaps]; return {Effect::kPending, {}, &current.seen};
    case Verdict::kResend: ++counters_[Counter::kDuplicates]; return {Effect::kResultAgain, result_of(update)};
    case Verdict::kStale: return reject(Counter::kStale);
    case Verdict::kAhead: ++counters_[Counter::kAhead]; return {Effect::kAhead};
    case Verdict::kMismatch:
      ++counters_[Counter::kMismatch];
      return {Effect::kMismatch, {}, nullptr, update.worker, current.first};
  }
  return {};
}

void Aggregator::accept(const UpdateView& update, bool overwrite) {
  if (overwrite) sizes_[version_at(update.slot, update.epoch)] = size_of(update);
  counters_[bytes_counter(update.format)] += update.words.size_bytes();
  PassSum sum = sum_of(update);
  std::span<const std::uint32_t> words = update.words;
  if (update.format != wire::Format::kInt32) {
    words = words.first(words.size() - options_.extra_words);
    take_extra_words(update, sum.words + words.size(), !overwrite);
  }
  overwrite ? sum.set(codec_, words, update.exponents) : sum.add(codec_, words, update.exponents);
}

// Adds or writes the extra words of an update whose format is not kInt32, in host byte order.
void Aggregator::take_extra_words(const UpdateView& update, std::uint32_t* extra, bool add) {
  if (options_.extra_words == 0) return;
  const std::size_t count = update.words.size() - options_.extra_words;
  (add ? codec_.add_big_endian : codec_.load_big_endian)(update.words.data() + count, options_.extra_words, extra);
  codec_.load_big_endian(update.words.data(), count, scratch_.data());
  options_.seal_packed({scratch_.data(), count}, -1, extra);
}

void Aggregator::complete(const UpdateView& update) {
  PassSum sum = sum_of(update);
  const bool whole = update.format == wire::Format::kInt32;
  if (options_.seal != nullptr && whole) seal(update, sum);
  sum.finish(codec_, whole ? update.words.size() : update.words.size() - options_.extra_words,
             static_cast<std::uint32_t>(numerics::log2_of(shape_.workers())));
  if (options_.seal != nullptr && !whole) seal(update, sum);
  ++counters_[Counter::kResults];
}

// Lets the protocol code finish the extra words of a complete pass.
void Aggregator::seal(const UpdateView& update, const PassSum& sum) {
  JAXINA_ASSERT(update.words.size() >= options_.extra_words);
  const std::size_t count = update.words.size() - options_.extra_words;
  std::uint32_t* extra = sum.words + count;
  if (update.format != wire::Format::kInt32) {
    codec_.load_big_endian(sum.words, count, scratch_.data());
    options_.seal_packed({scratch_.data(), count}, 1, extra);
  }
  options_.seal({sum.words, update.words.size()}, {sum.exponents, update.exponents.size()});
  if (update.format != wire::Format::kInt32) {
    codec_.encode_int32(extra, options_.extra_words, numerics::Store::kBigEndian, extra);
  }
}

ResultView Aggregator::result_of(const UpdateView& update) const {
  const Size held = sizes_[version_at(update.slot, update.epoch)];
  return {.slot = update.slot,
          .epoch = update.epoch,
          .fingerprint = update.fingerprint,
          .words = {words(update.slot, update.epoch, held.exponents), held.words},
          .exponents = {exponents(update.slot, update.epoch), held.exponents},
          .headroom = headroom(update.slot, update.epoch),
          .format = held.format};
}

void Aggregator::end(const Status& reason) {
  if (ended_.ok()) ended_ = reason;
}

WorkerSet Aggregator::missing() const {
  WorkerSet result{};
  for (const SlotState& slot : slots_) {
    for (const SlotVersion& version : slot.versions) {
      if (version.count == shape_.workers()) continue;
      for (std::size_t i = 0; i < result.size(); ++i) result[i] |= ~version.seen[i];
    }
  }
  // Clear the bits behind the last worker.
  for (std::size_t i = 0; i < result.size(); ++i) {
    const std::size_t first = 64 * i, workers = shape_.workers();
    if (workers <= first) result[i] = 0;
    else if (workers < first + 64) result[i] &= (std::uint64_t{1} << (workers - first)) - 1;
  }
  return result;
}

std::optional<SlotContents> Aggregator::inspect(std::uint32_t slot, std::uint32_t version) const {
  if (slot >= shape_.slots() || slot % options_.shard.of != options_.shard.index) return std::nullopt;
  const Size size = sizes_[version_at(slot, version)];
  const std::uint8_t* largest = exponents(slot, version);
  const std::uint32_t* sum = words(slot, version, size.exponents);
  const std::size_t count = size.words - std::min<std::size_t>(size.words, options_.extra_words);
  SlotContents contents{slots_[place(slot)].version(version),
                        {largest, largest + size.exponents},
                        std::vector<std::uint32_t>(count),
                        size.format};
  const bool complete = contents.control.count == shape_.workers();
  if (!complete && size.format == wire::Format::kInt32) {
    std::copy_n(sum, count, contents.words.data());
    return contents;
  }
  codec_.load_big_endian(sum, count, contents.words.data());  // in the form of packets
  if (!complete && wire::is_narrow(size.format)) {
    const std::uint32_t* sums = sums_.get() + version_at(slot, version) * shape_.narrow_elements_per_pass();
    contents.words.resize(wire::kSeedWords);
    contents.words.insert(contents.words.end(), sums, sums + wire::narrow_elements(size.format, count));
  }
  return contents;
}

Answer Aggregator::reject(Counter reason) {
  ++counters_[reason];
  return {Effect::kRejected};
}

}  // namespace jaxina
