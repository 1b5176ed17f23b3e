// What the passes carry: exponents, words and flags, straight between the local devices' tensors and a packet or slot.
#include <algorithm>
#include <cstring>
#include <utility>

#include "rdma_engine/worker/worker.h"

namespace jaxina {

using numerics::Store;

namespace {

// The next pass's elements: else they would come from memory page by page, while nothing else is done.
void prefetch(const std::byte* memory, std::size_t bytes) {
  for (std::size_t line = 0; line < bytes; line += 64) __builtin_prefetch(memory + line, 0, 2);
}

}  // namespace

void Worker::fill_exponents(const Pass& pass, std::uint8_t* out, bool merge) const {
  if (pass.exponents == 0) return;
  const Slot& slot = slots_[pass.slot];
  const Layout& layout = entry(slot.collective).layout;
  layout.for_each_block(*announced_chunk(slot), [&](const Block& block) {
    const auto exponent_of = pass.phase == Phase::kFlags ? block.codec->finite_exponent : block.codec->exponent;
    const bool staged = layout.on_devices() && block.codec->is_float;
    std::uint8_t exponent = merge ? out[block.index] : std::uint8_t{0};
    for (std::size_t device = 0; device < layout.devices(); ++device) {
      if (staged) {
        exponent = std::max(exponent, devices_->exponents(device, pass.slot)[block.index]);
        continue;
      }
      const std::byte* in = layout.in(device, block);
      if (layout.continues_a_chunk_later(block)) prefetch(in + layout.chunk_bytes(block), block.elements * block.codec->size);
      exponent = std::max(exponent, exponent_of(codec_, in, block.elements));
    }
    out[block.index] = exponent;
  });
}

const std::uint32_t* Worker::words_on_device(const Pass& pass) const {
  const bool there = devices_ && devices_->words_on_device() && pass.words > 0;
  return there && entry(slots_[pass.slot].collective).layout.on_devices() ? devices_->words(0, pass.slot) : nullptr;
}

void Worker::fill_words(const Pass& pass, std::uint32_t* words, Store store) {
  if (pass.words == 0) return;
  const Slot& slot = slots_[pass.slot];
  const Layout& layout = entry(slot.collective).layout;
  const std::uint8_t* global = exponents(pass.slot);
  // Words of several devices are added in host order and turned round afterwards.
  const bool turn = store == Store::kBigEndian && layout.devices() > 1;
  std::size_t written = 0;  // up to the next block there is padding, where a tensor's last block is short
  layout.for_each_block(slot.chunk, [&](const Block& block) {
    std::uint32_t* dst = words + block.first_word;
    if (store != Store::kAdd) std::memset(words + written, 0, 4 * (block.first_word - written));
    written = block.first_word + block.words;
    // An integer has no exponents and no flags, for which nobody reads it.
    const bool staged = layout.on_devices() && (pass.phase == Phase::kData || block.codec->is_float);
    for (std::size_t device = 0; device < layout.devices(); ++device) {
      const Store each = device > 0 ? Store::kAdd : turn ? Store::kWrite : store;
      if (staged) {
        const std::uint32_t* produced = devices_->words(device, pass.slot) + block.first_word;
        if (produced == dst) continue;  // as it is sent
        codec_.encode_int32(produced, block.words, each, dst);
        staged_words_ += block.words;
      } else if (pass.phase == Phase::kFlags) {
        block.codec->flags(codec_, layout.in(device, block), block.elements, each, dst);
      } else {
        block.codec->encode(codec_, layout.in(device, block), block.elements, global[block.index], scale_, each, dst);
      }
    }
    if (turn) codec_.encode_int32(dst, block.words, Store::kBigEndian, dst);
  });
  if (store != Store::kAdd) std::memset(words + written, 0, 4 * (pass.words - written));
}

DevicePayload::Sum Worker::sum_for_devices(std::size_t index, const Result& result) {
  if (devices_->reads_results_in_place()) return {result.word_data, result.order};
  std::uint32_t* copy = devices_->staged_sum(index);
  codec_.decode_int32(result.word_data, result.words, result.order, copy);
  staged_words_ += result.words;
  return {copy, numerics::Order::kHost};
}

void Worker::decode_flags(std::size_t index, const Result& result) {
  Slot& slot = slots_[index];
  const Layout& layout = entry(slot.collective).layout;
  slot.flagged = true;
  if (layout.on_devices()) {
    devices_->consume_flags(layout, slot.chunk, sum_for_devices(index, result));
    return;
  }
  layout.for_each_block(slot.chunk, [&](const Block& block) {
    const std::uint32_t* sum = result.word_data + block.first_word;
    for (std::size_t device = 0; device < layout.devices(); ++device) {
      std::byte* out = layout.out(device, block);
      // In place, the finite elements still have to be summed.
      const bool clear = layout.in(device, block) != out;
      block.codec->apply_flags(codec_, sum, block.elements, result.order, clear, out);
    }
  });
}

void Worker::decode_data(std::size_t index, const Result& result) {
  Slot& slot = slots_[index];
  const Layout& layout = entry(slot.collective).layout;
  const std::uint8_t* global = exponents(index);
  const bool flagged = std::exchange(slot.flagged, false);
  if (layout.on_devices()) {
    devices_->consume_data(index, layout, slot.chunk, sum_for_devices(index, result), flagged);
    devices_->mark({result.slot, false, true, slot.collective});
    return;
  }
  layout.for_each_block(slot.chunk, [&](const Block& block) {
    const std::uint32_t* sum = result.word_data + block.first_word;
    const std::uint8_t exponent = global[block.index];
    for (std::size_t device = 0; device < layout.devices(); ++device) {
      std::byte* out = layout.out(device, block);
      if (!flagged && layout.streams(device, block)) {
        block.codec->decode_streaming(codec_, sum, block.elements, exponent, scale_, result.order, out);
      } else {
        block.codec->decode(codec_, sum, block.elements, exponent, scale_, result.order, flagged, out);
      }
    }
  });
}

// False if it cannot be done in one.
bool Worker::exchange_data(const Pass& pass, std::uint8_t* announced, bool merge, std::uint32_t* words, Store store,
                           const Result& result) const {
  const Slot &filled = slots_[pass.slot], &decoded = slots_[result.slot];
  const bool plain = pass.phase == Phase::kData && pass.exponents > 0 && decoded.phase == Phase::kData &&
                     !decoded.flagged && result.order == numerics::Order::kHost;
  if (!plain) return false;
  const Layout &source = entry(filled.collective).layout, &target = entry(decoded.collective).layout;
  const std::optional<Block> ahead = source.stretch(*announced_chunk(filled)), in = source.stretch(filled.chunk),
                             out = target.stretch(decoded.chunk);
  if (!ahead || !in || !out || ahead->codec != in->codec || out->codec != in->codec) return false;
  in->codec->exchange(codec_,
                      {config_.geometry.blocks_per_chunk, config_.geometry.block_size, source.in(0, *ahead), announced, merge,
                       source.in(0, *in), exponents(pass.slot), store, words, result.word_data, exponents(result.slot),
                       target.streams(0, *out), target.out(0, *out)},
                      scale_);
  return true;
}

// Asks the devices for what the slot's next pass carries.
void Worker::produce(std::size_t index) {
  const Slot& slot = slots_[index];
  const Layout& layout = entry(slot.collective).layout;
  switch (slot.phase) {
    case Phase::kLookAhead:
      break;
    case Phase::kFlags:
      devices_->produce_flags(index, layout, slot.chunk);
      break;
    case Phase::kData:
      devices_->produce_data(index, layout, slot.chunk, exponents(index));
      break;
  }
  if (const std::optional<std::size_t> announced = announced_chunk(slot)) {
    devices_->produce_exponents(index, layout, *announced, slot.phase == Phase::kFlags);
  }
}

}  // namespace jaxina
