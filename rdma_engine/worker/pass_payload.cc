#include "rdma_engine/worker/pass_payload.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "rdma_engine/base/assert.h"

namespace jaxina {

using numerics::Store;

namespace {

// Prefetches the next pass's elements. Otherwise the processor would wait for memory once per page and do nothing else
// meanwhile.
void prefetch(const std::byte* memory, std::size_t bytes) {
  for (std::size_t line = 0; line < bytes; line += 64) __builtin_prefetch(memory + line, 0, 2);
}

// The exponent of a block in host memory. Also prefetches the same block of the next chunk.
std::uint8_t exponent_of(const numerics::Codec& codec, const Layout& layout, std::size_t device, const Block& block,
                         Phase phase) {
  const std::byte* in = layout.in(device, block);
  if (layout.has_block_a_chunk_later(block)) {
    prefetch(in + layout.chunk_bytes(block), block.elements * block.codec->size);
  }
  return (phase == Phase::kFlags ? block.codec->finite_exponent : block.codec->exponent)(codec, in, block.elements);
}

}  // namespace

PassPayload::PassPayload(const JobShape& shape, std::uint32_t worker, const TransportMemory& memory,
                         const numerics::Codec& codec)
    : shape_(shape),
      worker_(worker),
      memory_(memory),
      codec_(codec),
      scale_(numerics::scale_for(shape.devices())),
      narrow_(shape, worker, codec),
      exponents_(std::size_t{shape.slots()} * shape.exponents_per_pass()),
      flagged_(shape.slots()) {}

void PassPayload::admit(const Layout& layout) {
  if (!layout.on_devices() || devices_) return;
  std::vector<TensorDevice*> devices;
  for (std::size_t d = 0; d < layout.devices(); ++d) devices.push_back(layout.device(d));
  devices_ = std::make_unique<DevicePayload>(std::move(devices), shape_, worker_, narrow_.rounding(), memory_);
}

bool PassPayload::produce(const Content& pass) {
  if (!devices_) return true;
  // This is needed even if this pass's tensors are in host memory: a device may still read the slot's last result,
  // which stays only until this pass is sent.
  if (pass.layout->on_devices()) {
    if (pass.place.phase == Phase::kFlags) devices_->produce_flags(pass.slot, *pass.layout, pass.place.chunk);
    if (pass.place.phase == Phase::kData) {
      devices_->produce_data(pass.slot, *pass.layout, pass.place.chunk, exponents(pass.slot));
    }
    if (pass.announced) {
      devices_->produce_exponents(pass.slot, *pass.layout, *pass.announced, pass.place.phase == Phase::kFlags);
    }
  }
  devices_->mark({pass.slot, true, false, pass.place.collective});
  return false;
}

void PassPayload::fill_exponents(const Content& pass, std::uint8_t* out, bool merge) const {
  if (!pass.announced) return;
  const Layout& layout = *pass.layout;
  layout.for_each_block(*pass.announced, [&](const Block& block) {
    const bool staged = layout.on_devices() && block.codec->is_float;
    std::uint8_t exponent = merge ? out[block.index] : std::uint8_t{0};
    for (std::size_t device = 0; device < layout.devices(); ++device) {
      exponent = std::max(exponent, staged ? devices_->exponents(device, pass.slot)[block.index]
                                           : exponent_of(codec_, layout, device, block, pass.place.phase));
    }
    out[block.index] = exponent;
  });
}

const std::uint32_t* PassPayload::words_on_device(const Content& pass) const {
  const bool there = devices_ && devices_->words_on_device() && pass.layout->on_devices();
  return there && pass.place.phase != Phase::kLookAhead ? devices_->words(0, pass.slot) : nullptr;
}

// What the devices have produced for a block of narrow words. Words that are in the message already count as such.
NarrowBlocks::Produced PassPayload::produced(const Content& pass, const Block& block) {
  const Layout& layout = *pass.layout;
  produced_.clear();
  if (!layout.on_devices()) return {};
  const bool flags = pass.place.phase == Phase::kFlags;
  const std::size_t place = flags ? devices_->flag_place(block, block.word) : devices_->narrow_place(block);
  for (std::size_t device = 0; device < layout.devices(); ++device) {
    produced_.push_back(devices_->words(device, pass.slot) + place);
  }
  const std::size_t words = flags ? flag_words(shape_) : numerics::packed_size(block.elements, block.word);
  if (!devices_->writes_messages()) staged_words_ += layout.devices() * words;
  return produced_;
}

// Fills a pass whose words are not 32 bits each.
void PassPayload::fill_packed(const Content& pass, std::size_t count, std::uint32_t* words) {
  const Layout& layout = *pass.layout;
  const bool flags = pass.place.phase == Phase::kFlags;
  const std::uint8_t* global = exponents(pass.slot);
  std::size_t written = 0;
  layout.for_each_block(pass.place.chunk, [&](const Block& block) {
    if (flags) return narrow_.encode_flags(layout, block, produced(pass, block), words);
    if (block.index == 0) narrow_.write_seed(layout, block, words);
    const std::size_t first = wire::kSeedWords + block.first_word;
    if (written > 0) std::memset(words + written, 0, 4 * (first - written));
    narrow_.encode_packed(layout, block, global[block.index], produced(pass, block), words);
    written = first + block.words;
  });
  JAXINA_ASSERT(flags || written == count);
}

// Returns how many numbers became zero that would not have in wider words.
std::size_t PassPayload::encode_block(const Layout& layout, const Block& block, std::uint8_t exponent, Store store,
                                      std::uint32_t* dst) {
  if (block.word == numerics::WireWord::kInt32) {
    return block.codec->encode(codec_, layout.in(0, block), block.elements, exponent, scale_, store, dst);
  }
  narrow_.encode(layout, block, exponent, {}, dst, store == Store::kAdd);
  return 0;
}

// Decodes a result's words to a block in host memory.
void PassPayload::decode_block(const Layout& layout, std::size_t device, const Block& block, const Result& result,
                               std::uint8_t exponent, bool flagged) {
  const std::uint32_t* sum = result.word_data + block.first_word;
  std::byte* out = layout.out(device, block);
  if (wire::is_narrow(result.format)) {
    narrow_.decode_packed(layout, device, block, exponent, result.word_data, flagged);
  } else if (block.word != numerics::WireWord::kInt32) {
    narrow_.decode(layout, device, block, exponent, sum, result.order, flagged);
  } else if (!flagged && layout.streams(device, block)) {
    block.codec->decode_streaming(codec_, sum, block.elements, exponent, scale_, result.order, out);
  } else {
    block.codec->decode(codec_, sum, block.elements, exponent, scale_, result.order, flagged, out);
  }
}

// Whether one ElementCodec::exchange can process these three blocks.
bool PassPayload::alike(const Layout& source, const Block& ahead, const Block& in, const Block& out) const {
  const bool random = in.word != numerics::WireWord::kInt32 && source.rounding().stochastic;
  return in.codec->exchange != nullptr && !random && ahead.codec == in.codec && out.codec == in.codec &&
         ahead.word == in.word && out.word == in.word && ahead.elements == in.elements && out.elements == in.elements;
}

void PassPayload::fill_words(const Content& pass, std::size_t count, std::uint32_t* words, Store store, bool again) {
  if (count == 0) return;
  const Layout& layout = *pass.layout;
  if (layout.format_of(pass.place.chunk, pass.place.phase == Phase::kFlags) != wire::Format::kInt32) {
    JAXINA_ASSERT(store == Store::kBigEndian);
    return fill_packed(pass, count, words);
  }
  const std::uint8_t* global = exponents(pass.slot);
  // The words of several devices are added in host byte order first, and converted to network byte order afterwards.
  const bool swap_afterwards = store == Store::kBigEndian && layout.devices() > 1;
  std::size_t written = 0;  // between here and the next block there is padding, if a tensor's last block is short
  layout.for_each_block(pass.place.chunk, [&](const Block& block) {
    std::uint32_t* dst = words + block.first_word;
    if (store != Store::kAdd) std::memset(words + written, 0, 4 * (block.first_word - written));
    written = block.first_word + block.words;
    if (pass.place.phase == Phase::kData && block.word != numerics::WireWord::kInt32) {
      JAXINA_ASSERT(store != Store::kBigEndian);
      return narrow_.encode(layout, block, global[block.index], produced(pass, block), dst, store == Store::kAdd);
    }
    // Integers have no exponents and no flags, so devices produce only their data.
    const bool staged = layout.on_devices() && (pass.place.phase == Phase::kData || block.codec->is_float);
    for (std::size_t device = 0; device < layout.devices(); ++device) {
      const Store each = device > 0 ? Store::kAdd : swap_afterwards ? Store::kWrite : store;
      if (staged) {
        const std::uint32_t* produced = devices_->words(device, pass.slot) + block.first_word;
        if (produced == dst) continue;  // the device has already written them into the message
        codec_.encode_int32(produced, block.words, each, dst);
        staged_words_ += block.words;
      } else if (pass.place.phase == Phase::kFlags) {
        block.codec->flags(codec_, layout.in(device, block), block.elements, each, dst);
      } else {
        const std::size_t rounded_to_zero = block.codec->encode(codec_, layout.in(device, block), block.elements,
                                                                global[block.index], scale_, each, dst);
        if (!again) layout.count_rounded_to_zero(device, rounded_to_zero);
      }
    }
    if (swap_afterwards) codec_.encode_int32(dst, block.words, Store::kBigEndian, dst);
  });
  JAXINA_ASSERT(written <= count);
  if (store != Store::kAdd) std::memset(words + written, 0, 4 * (count - written));
}

DevicePayload::Sum PassPayload::sum_for_devices(const Result& result) {
  const std::size_t seed = wire::is_narrow(result.format) ? wire::kSeedWords : 0;
  if (devices_->reads_results_in_place()) return {result.word_data + seed, result.order};
  std::uint32_t* copy = devices_->staged_sum(result.slot);
  // Packed words stay in network order.
  const numerics::Order order = result.format == wire::Format::kInt32 ? result.order : numerics::Order::kHost;
  codec_.decode_int32(result.word_data + seed, result.words - seed, order, copy);
  staged_words_ += result.words - seed;
  return {copy, numerics::Order::kHost};
}

void PassPayload::decode_flags(const Content& pass, const Result& result) {
  const Layout& layout = *pass.layout;
  flagged_[pass.slot] = true;
  if (layout.on_devices()) {
    devices_->consume_flags(layout, pass.place.chunk, sum_for_devices(result));
    return;
  }
  layout.for_each_block(pass.place.chunk, [&](const Block& block) {
    const std::uint32_t* sum = result.word_data + block.first_word;
    for (std::size_t device = 0; device < layout.devices(); ++device) {
      if (result.format == wire::Format::kFlags) {
        narrow_.decode_flags(layout, device, block, result.word_data);
        continue;
      }
      std::byte* out = layout.out(device, block);
      // If the sum is in place, the finite elements have not been summed yet, so they must stay.
      const bool clear = layout.in(device, block) != out;
      block.codec->apply_flags(codec_, sum, block.elements, result.order, clear, out);
    }
  });
}

bool PassPayload::decode_data(const Content& pass, const Result& result) {
  const Layout& layout = *pass.layout;
  const std::uint8_t* global = exponents(pass.slot);
  const bool flagged = std::exchange(flagged_[pass.slot], false);
  if (layout.on_devices()) {
    devices_->consume_data(pass.slot, layout, pass.place.chunk, sum_for_devices(result), flagged);
    devices_->mark({pass.slot, false, true, pass.place.collective});
    return false;
  }
  layout.for_each_block(pass.place.chunk, [&](const Block& block) {
    for (std::size_t device = 0; device < layout.devices(); ++device) {
      decode_block(layout, device, block, result, global[block.index], flagged);
    }
  });
  return true;
}

bool PassPayload::exchange(const Content& filled, std::size_t count, std::uint8_t* announced, bool merge,
                           std::uint32_t* words, Store store, const Content& decoded, const Result& result) {
  const bool plain = filled.place.phase == Phase::kData && filled.announced && decoded.place.phase == Phase::kData &&
                     !flagged_[decoded.slot] && result.order == numerics::Order::kHost;
  if (!plain) return false;
  const Layout &source = *filled.layout, &target = *decoded.layout;
  if (source.devices() > 1 || source.on_devices() || target.on_devices()) return false;
  JAXINA_ASSERT(target.devices() == 1);  // all collectives of a group have the same number of local devices
  const std::uint8_t *in_exponents = exponents(filled.slot), *out_exponents = exponents(decoded.slot);
  Layout::Cursor aheads = source.blocks_of(*filled.announced), ins = source.blocks_of(filled.place.chunk),
                 outs = target.blocks_of(decoded.place.chunk);
  std::size_t written = 0, rounded_to_zero = 0;
  while (true) {
    const std::optional<Block> ahead = aheads.block(), in = ins.block(), out = outs.block();
    if (!ahead && !in && !out) break;
    std::size_t blocks = 1;
    if (ahead && in && out && alike(source, *ahead, *in, *out) && alike(target, *ahead, *in, *out)) {
      blocks = std::min({aheads.equal_blocks(), ins.equal_blocks(), outs.equal_blocks()});
      const bool narrow = in->word != numerics::WireWord::kInt32;
      const std::size_t zeros =
          in->codec->exchange(codec_,
                              {blocks, in->elements, source.in(0, *ahead), announced + ahead->index, merge,
                               source.in(0, *in), in_exponents + in->index, store, words + in->first_word,
                               result.word_data + out->first_word, out_exponents + out->index, target.streams(0, *out),
                               target.out(0, *out), narrow ? narrow_.rounding().sum_shift() : 0},
                              narrow ? NarrowRounding::encode_scale(in->word) : scale_,
                              narrow ? narrow_.rounding().decode_scale(in->word) : scale_);
      if (!narrow) rounded_to_zero += zeros;
    } else {
      if (ahead) {
        const std::uint8_t exponent = exponent_of(codec_, source, 0, *ahead, Phase::kData);
        announced[ahead->index] = merge ? std::max(announced[ahead->index], exponent) : exponent;
      }
      if (in) {
        rounded_to_zero += encode_block(source, *in, in_exponents[in->index], store, words + in->first_word);
      }
      if (out) decode_block(target, 0, *out, result, out_exponents[out->index], false);
    }
    if (in) {
      if (store != Store::kAdd) std::memset(words + written, 0, 4 * (in->first_word - written));
      written = in->first_word + blocks * in->words;
    }
    aheads.advance(blocks);
    ins.advance(blocks);
    outs.advance(blocks);
  }
  if (store != Store::kAdd) std::memset(words + written, 0, 4 * (count - written));
  source.count_rounded_to_zero(0, rounded_to_zero);
  return true;
}

Announced PassPayload::keep_exponents(const Result& result) {
  JAXINA_ASSERT(result.exponents <= shape_.exponents_per_pass());
  std::uint8_t* kept = exponents(result.slot);
  std::copy_n(result.exponent_data, result.exponents, kept);
  const bool non_finite =
      std::find(kept, kept + result.exponents, numerics::kNonFiniteExponent) != kept + result.exponents;
  return {non_finite, digest({kept, result.exponents})};
}

}  // namespace jaxina
