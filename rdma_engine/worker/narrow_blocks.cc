#include "rdma_engine/worker/narrow_blocks.h"

#include <bit>
#include <cstring>

#include "rdma_engine/numerics/stochastic_rounding.h"
#include "rdma_engine/numerics/vector_arithmetic.h"

namespace jaxina {

using numerics::kFlagsPerWord;
using numerics::Order;
using numerics::Rounding;
using numerics::Store;

namespace {

// Which of a collective's random numbers: those of the sum, of a device, or of a process's devices together.
constexpr std::uint64_t kOfSum = 0;
constexpr std::uint64_t of_device(std::uint64_t device) { return 1 + device; }
constexpr std::uint64_t of_process(std::uint64_t worker) { return (std::uint64_t{1} << 32) + worker; }

std::uint32_t to_or_from_big_endian(std::uint32_t word) {
  return std::endian::native == std::endian::little ? __builtin_bswap32(word) : word;
}

}  // namespace

NarrowBlocks::NarrowBlocks(const JobShape& shape, std::uint32_t worker, const numerics::Codec& codec)
    : shape_(shape),
      worker_(worker),
      codec_(codec),
      log2_devices_(numerics::log2_of(shape.devices_per_worker())),
      log2_workers_(numerics::log2_of(shape.workers())),
      words_(shape.block_size()) {}

// How the words of this block are rounded in one of the streams of random numbers.
Rounding NarrowBlocks::rounding(const Layout& layout, std::uint64_t stream, const Block& block) const {
  const Rounding& rounding = layout.rounding();
  if (!rounding.stochastic) return {};
  return {true, numerics::seed_from(numerics::random64(rounding.seed, stream), first_element(block))};
}

void NarrowBlocks::encode(const Layout& layout, const Block& block, std::uint8_t exponent, std::uint32_t* words,
                          bool add) {
  // The words of several devices are added and divided before they may be added to others.
  const bool alone = layout.devices() == 1;
  std::uint32_t* dst = alone ? words : words_.data();
  for (std::size_t device = 0; device < layout.devices(); ++device) {
    const bool add_to_dst = alone ? add : device > 0;
    const std::byte* in = layout.in(device, block);
    if (layout.rounding().stochastic) {
      const std::uint64_t rank = std::uint64_t{worker_} * layout.devices() + device;
      block.codec->encode_at_random(codec_, in, block.elements, exponent, encode_scale(block.word),
                                    rounding(layout, of_device(rank), block).seed, add_to_dst, dst);
    } else {
      block.codec->encode(codec_, in, block.elements, exponent, encode_scale(block.word),
                          add_to_dst ? Store::kAdd : Store::kWrite, dst);
    }
  }
  if (alone) return;
  codec_.shift(dst, block.elements, static_cast<std::uint32_t>(log2_devices_),
               rounding(layout, of_process(worker_), block));
  codec_.encode_int32(dst, block.elements, add ? Store::kAdd : Store::kWrite, words);
}

void NarrowBlocks::decode(const Layout& layout, std::size_t device, const Block& block, std::uint8_t exponent,
                          const std::uint32_t* sum, Order order, bool flagged) {
  codec_.decode_int32(sum, block.elements, order, words_.data());
  codec_.shift(words_.data(), block.elements, sum_shift(), rounding(layout, kOfSum, block));
  dequantize(layout, device, block, exponent, flagged);
}

void NarrowBlocks::dequantize(const Layout& layout, std::size_t device, const Block& block, std::uint8_t exponent,
                              bool flagged) {
  std::byte* out = layout.out(device, block);
  if (!flagged && layout.streams(device, block)) {
    block.codec->decode_streaming(codec_, words_.data(), block.elements, exponent, decode_scale(block.word),
                                  Order::kHost, out);
  } else {
    block.codec->decode(codec_, words_.data(), block.elements, exponent, decode_scale(block.word), Order::kHost,
                        flagged, out);
  }
}

void NarrowBlocks::write_seed(const Layout& layout, const Block& first, std::uint32_t* pass) const {
  const std::uint64_t seed = rounding(layout, kOfSum, first).seed;
  pass[0] = to_or_from_big_endian(static_cast<std::uint32_t>(seed >> 32));
  pass[1] = to_or_from_big_endian(static_cast<std::uint32_t>(seed));
}

void NarrowBlocks::encode_packed(const Layout& layout, const Block& block, std::uint8_t exponent, std::uint32_t* pass) {
  encode(layout, block, exponent, words_.data(), false);
  codec_.pack(words_.data(), block.elements, block.word, pass + wire::kSeedWords + block.first_word);
}

void NarrowBlocks::decode_packed(const Layout& layout, std::size_t device, const Block& block, std::uint8_t exponent,
                                 const std::uint32_t* pass, bool flagged) {
  codec_.unpack(pass + wire::kSeedWords + block.first_word, block.elements, block.word, false, words_.data());
  dequantize(layout, device, block, exponent, flagged);
}

void NarrowBlocks::encode_flags(const Layout& layout, const Block& block, std::uint32_t* pass) {
  for (std::size_t device = 0; device < layout.devices(); ++device) {
    block.codec->flags(codec_, layout.in(device, block), block.elements, device > 0 ? Store::kAdd : Store::kWrite,
                       words_.data());
  }
  std::uint32_t* flags = pass + block.index * flag_words(shape_);
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
