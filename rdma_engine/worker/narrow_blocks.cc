#include "rdma_engine/worker/narrow_blocks.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "rdma_engine/numerics/vector_arithmetic.h"

namespace jaxina {

using numerics::kFlagsPerWord;
using numerics::Order;
using numerics::Store;

namespace {

std::uint32_t to_or_from_big_endian(std::uint32_t word) {
  return std::endian::native == std::endian::little ? __builtin_bswap32(word) : word;
}

}  // namespace

NarrowBlocks::NarrowBlocks(const JobShape& shape, std::uint32_t worker, const numerics::Codec& codec)
    : shape_(shape), rounding_(shape, worker), codec_(codec), words_(shape.block_size()) {}

void NarrowBlocks::encode(const Layout& layout, const Block& block, std::uint8_t exponent, Produced produced,
                          std::uint32_t* words, bool add) {
  // The words of several devices are added and divided before they may be added to others.
  const bool alone = layout.devices() == 1;
  std::uint32_t* dst = alone ? words : words_.data();
  for (std::size_t device = 0; device < layout.devices(); ++device) {
    const bool add_to_dst = alone ? add : device > 0;
    const numerics::Scale scale = NarrowRounding::encode_scale(block.word);
    if (!produced.empty()) {
      codec_.unpack(produced[device], block.elements, block.word, add_to_dst, dst);
    } else if (layout.rounding().stochastic) {
      block.codec->encode_at_random(codec_, layout.in(device, block), block.elements, exponent, scale,
                                    rounding_.of_device(layout, device, block).seed, add_to_dst, dst);
    } else {
      block.codec->encode(codec_, layout.in(device, block), block.elements, exponent, scale,
                          add_to_dst ? Store::kAdd : Store::kWrite, dst);
    }
  }
  if (alone) return;
  codec_.shift(dst, block.elements, rounding_.process_shift(), rounding_.of_process(layout, block));
  codec_.encode_int32(dst, block.elements, add ? Store::kAdd : Store::kWrite, words);
}

void NarrowBlocks::decode(const Layout& layout, std::size_t device, const Block& block, std::uint8_t exponent,
                          const std::uint32_t* sum, Order order, bool flagged) {
  codec_.decode_int32(sum, block.elements, order, words_.data());
  codec_.shift(words_.data(), block.elements, rounding_.sum_shift(), rounding_.of_sum(layout, block));
  dequantize(layout, device, block, exponent, flagged);
}

void NarrowBlocks::dequantize(const Layout& layout, std::size_t device, const Block& block, std::uint8_t exponent,
                              bool flagged) {
  const numerics::Scale scale = rounding_.decode_scale(block.word);
  std::byte* out = layout.out(device, block);
  if (!flagged && layout.streams(device, block)) {
    block.codec->decode_streaming(codec_, words_.data(), block.elements, exponent, scale, Order::kHost, out);
  } else {
    block.codec->decode(codec_, words_.data(), block.elements, exponent, scale, Order::kHost, flagged, out);
  }
}

void NarrowBlocks::write_seed(const Layout& layout, const Block& first, std::uint32_t* pass) const {
  const std::uint64_t seed = rounding_.of_sum(layout, first).seed;
  pass[0] = to_or_from_big_endian(static_cast<std::uint32_t>(seed >> 32));
  pass[1] = to_or_from_big_endian(static_cast<std::uint32_t>(seed));
}

void NarrowBlocks::encode_packed(const Layout& layout, const Block& block, std::uint8_t exponent, Produced produced,
                                 std::uint32_t* pass) {
  std::uint32_t* packed = pass + wire::kSeedWords + block.first_word;
  if (produced.size() == 1) {  // the device has packed them, perhaps in place
    if (produced[0] != packed) std::copy_n(produced[0], block.words, packed);
    return;
  }
  encode(layout, block, exponent, produced, words_.data(), false);
  codec_.pack(words_.data(), block.elements, block.word, packed);
}

void NarrowBlocks::decode_packed(const Layout& layout, std::size_t device, const Block& block, std::uint8_t exponent,
                                 const std::uint32_t* pass, bool flagged) {
  codec_.unpack(pass + wire::kSeedWords + block.first_word, block.elements, block.word, false, words_.data());
  dequantize(layout, device, block, exponent, flagged);
}

void NarrowBlocks::encode_flags(const Layout& layout, const Block& block, Produced produced, std::uint32_t* pass) {
  std::uint32_t* flags = pass + block.index * flag_words(shape_);
  if (!produced.empty()) {
    if (produced[0] != flags) std::copy_n(produced[0], flag_words(shape_), flags);
    for (const std::uint32_t* more : produced.subspan(1)) {
      for (std::size_t i = 0; i < flag_words(shape_); ++i) flags[i] |= more[i];
    }
    return;
  }
  for (std::size_t device = 0; device < layout.devices(); ++device) {
    block.codec->flags(codec_, layout.in(device, block), block.elements, device > 0 ? Store::kAdd : Store::kWrite,
                       words_.data());
  }
  std::memset(flags, 0, 4 * flag_words(shape_));
  for (std::size_t i = 0; i < block.elements; ++i) {
    flags[i / kFlagsPerWord] |= numerics::packed_flag(words_[i]) << (2 * (i % kFlagsPerWord));
  }
  for (std::size_t i = 0; i < flag_words(shape_); ++i) flags[i] = to_or_from_big_endian(flags[i]);
}

void NarrowBlocks::decode_flags(const Layout& layout, std::size_t device, const Block& block,
                                const std::uint32_t* pass) {
  const std::uint32_t* flags = pass + block.index * flag_words(shape_);
  for (std::size_t i = 0; i < block.elements; ++i) {
    words_[i] = numerics::unpacked_flag(to_or_from_big_endian(flags[i / kFlagsPerWord]) >> (2 * (i % kFlagsPerWord)));
  }
  // If the sum is in place, the finite elements have not been summed yet, so they must stay.
  std::byte* out = layout.out(device, block);
  block.codec->apply_flags(codec_, words_.data(), block.elements, Order::kHost, layout.in(device, block) != out, out);
}

}  // namespace jaxina
