// What the passes carry: exponents, words and flags, straight between the local devices' tensors and a packet or slot.
#include <algorithm>
#include <cstring>

#include "rdma_engine/worker/worker.h"

namespace jaxina {

using numerics::Store;

void Worker::fill_exponents(const Pass& pass, std::uint8_t* out, bool merge) const {
  if (pass.exponents == 0) return;
  const Slot& slot = slots_[pass.slot];
  const Layout& layout = entry(slot.collective).layout;
  layout.for_each_block(*announced_chunk(slot), [&](const Block& block) {
    const auto exponent_of = pass.phase == Phase::kFlags ? block.codec->finite_exponent : block.codec->exponent;
    std::uint8_t exponent = merge ? out[block.index] : std::uint8_t{0};
    for (std::size_t device = 0; device < layout.devices(); ++device) {
      exponent = std::max(exponent, exponent_of(codec_, layout.in(device, block), block.elements));
    }
    out[block.index] = exponent;
  });
}

void Worker::fill_words(const Pass& pass, std::uint32_t* words, Store store) const {
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
    for (std::size_t device = 0; device < layout.devices(); ++device) {
      const Store each = device > 0 ? Store::kAdd : turn ? Store::kWrite : store;
      if (pass.phase == Phase::kFlags) {
        block.codec->flags(codec_, layout.in(device, block), block.elements, each, dst);
      } else {
        block.codec->encode(codec_, layout.in(device, block), block.elements, global[block.index], scale_, each, dst);
      }
    }
    if (turn) codec_.encode_int32(dst, block.words, Store::kBigEndian, dst);
  });
}

void Worker::decode_flags(std::size_t index, const Result& result) {
  Slot& slot = slots_[index];
  const Layout& layout = entry(slot.collective).layout;
  layout.for_each_block(slot.chunk, [&](const Block& block) {
    const std::uint32_t* sum = result.word_data + block.first_word;
    for (std::size_t device = 0; device < layout.devices(); ++device) {
      std::byte* out = layout.out(device, block);
      // In place, the finite elements still have to be summed.
      const bool clear = layout.in(device, block) != out;
      block.codec->apply_flags(codec_, sum, block.elements, result.order, clear, out);
    }
  });
  slot.flagged = true;
}

void Worker::decode_data(std::size_t index, const Result& result) {
  Slot& slot = slots_[index];
  const Layout& layout = entry(slot.collective).layout;
  const std::uint8_t* global = exponents(index);
  layout.for_each_block(slot.chunk, [&](const Block& block) {
    const std::uint32_t* sum = result.word_data + block.first_word;
    for (std::size_t device = 0; device < layout.devices(); ++device) {
      block.codec->decode(codec_, sum, block.elements, global[block.index], scale_, result.order, slot.flagged,
                          layout.out(device, block));
    }
  });
  slot.flagged = false;
}

}  // namespace jaxina
