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

// Of a block in this processor's memory. The same block of the next chunk is called from memory meanwhile.
std::uint8_t exponent_of(const numerics::Codec& codec, const Layout& layout, std::size_t device, const Block& block, Phase phase) {
  const std::byte* in = layout.in(device, block);
  if (layout.continues_a_chunk_later(block)) prefetch(in + layout.chunk_bytes(block), block.elements * block.codec->size);
  return (phase == Phase::kFlags ? block.codec->finite_exponent : block.codec->exponent)(codec, in, block.elements);
}

// A result's words to a block in this processor's memory.
void decode_block(const numerics::Codec& codec, numerics::Scale scale, const Layout& layout, std::size_t device, const Block& block,
                  const Result& result, std::uint8_t exponent, bool flagged) {
  const std::uint32_t* sum = result.word_data + block.first_word;
  std::byte* out = layout.out(device, block);
  if (!flagged && layout.streams(device, block)) {
    block.codec->decode_streaming(codec, sum, block.elements, exponent, scale, result.order, out);
  } else {
    block.codec->decode(codec, sum, block.elements, exponent, scale, result.order, flagged, out);
  }
}

// Whether these blocks can be one ElementCodec::exchange.
bool alike(const Block& ahead, const Block& in, const Block& out) {
  return in.codec->exchange != nullptr && ahead.codec == in.codec && out.codec == in.codec && ahead.elements == in.elements &&
         out.elements == in.elements;
}

}  // namespace

void Worker::fill_exponents(const Pass& pass, std::uint8_t* out, bool merge) const {
  if (pass.exponents == 0) return;
  const Slot& slot = slots_[pass.slot];
  const Layout& layout = entry(slot.collective).layout;
  layout.for_each_block(*announced_chunk(slot), [&](const Block& block) {
    const bool staged = layout.on_devices() && block.codec->is_float;
    std::uint8_t exponent = merge ? out[block.index] : std::uint8_t{0};
    for (std::size_t device = 0; device < layout.devices(); ++device) {
      exponent = std::max(exponent, staged ? devices_->exponents(device, pass.slot)[block.index]
                                           : exponent_of(codec_, layout, device, block, pass.phase));
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
    for (std::size_t device = 0; device < layout.devices(); ++device) {
      decode_block(codec_, scale_, layout, device, block, result, global[block.index], flagged);
    }
  });
}

// False if it cannot be done side by side.
bool Worker::exchange_data(const Pass& pass, std::uint8_t* announced, bool merge, std::uint32_t* words, Store store,
                           const Result& result) const {
  const Slot &filled = slots_[pass.slot], &decoded = slots_[result.slot];
  const bool plain = pass.phase == Phase::kData && pass.exponents > 0 && decoded.phase == Phase::kData &&
                     !decoded.flagged && result.order == numerics::Order::kHost;
  if (!plain) return false;
  const Layout &source = entry(filled.collective).layout, &target = entry(decoded.collective).layout;
  if (source.devices() > 1 || source.on_devices() || target.on_devices()) return false;
  const std::uint8_t *forth = exponents(pass.slot), *back = exponents(result.slot);
  Layout::Cursor aheads = source.blocks_of(*announced_chunk(filled)), ins = source.blocks_of(filled.chunk),
                 outs = target.blocks_of(decoded.chunk);
  std::size_t written = 0;
  while (true) {
    const std::optional<Block> ahead = aheads.block(), in = ins.block(), out = outs.block();
    if (!ahead && !in && !out) break;
    std::size_t blocks = 1;
    if (ahead && in && out && alike(*ahead, *in, *out)) {
      blocks = std::min({aheads.stretch(), ins.stretch(), outs.stretch()});
      in->codec->exchange(codec_,
                          {blocks, in->elements, source.in(0, *ahead), announced + ahead->index, merge, source.in(0, *in),
                           forth + in->index, store, words + in->first_word, result.word_data + out->first_word,
                           back + out->index, target.streams(0, *out), target.out(0, *out)},
                          scale_);
    } else {
      if (ahead) {
        const std::uint8_t exponent = exponent_of(codec_, source, 0, *ahead, pass.phase);
        announced[ahead->index] = merge ? std::max(announced[ahead->index], exponent) : exponent;
      }
      if (in) in->codec->encode(codec_, source.in(0, *in), in->elements, forth[in->index], scale_, store, words + in->first_word);
      if (out) decode_block(codec_, scale_, target, 0, *out, result, back[out->index], false);
    }
    if (in) {
      if (store != Store::kAdd) std::memset(words + written, 0, 4 * (in->first_word - written));
      written = in->first_word + blocks * in->words;
    }
    aheads.advance(blocks);
    ins.advance(blocks);
    outs.advance(blocks);
  }
  if (store != Store::kAdd) std::memset(words + written, 0, 4 * (pass.words - written));
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
