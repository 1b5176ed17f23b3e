// What the passes carry: exponents, words and flags, straight between the tensors and a packet or slot.
#include <algorithm>
#include <cstring>

#include "rdma_engine/worker/worker.h"

namespace jaxina {

void Worker::fill_exponents(const Pass& pass, std::uint8_t* out, bool merge) const {
  if (pass.exponents == 0) return;
  const Slot& slot = slots_[pass.slot];
  entry(slot.collective).layout.for_each_block(*announced_chunk(slot), [&](const Block& block) {
    const auto exponent_of = pass.phase == Phase::kFlags ? block.codec->finite_exponent : block.codec->exponent;
    const std::uint8_t exponent = exponent_of(codec_, block.in, block.elements);
    out[block.index] = merge ? std::max(out[block.index], exponent) : exponent;
  });
}

void Worker::fill_words(const Pass& pass, std::uint32_t* words, numerics::Store store) const {
  if (pass.words == 0) return;
  const Slot& slot = slots_[pass.slot];
  const std::uint8_t* global = exponents(pass.slot);
  std::size_t written = 0;  // up to the next block there is padding, where a tensor's last block is short
  entry(slot.collective).layout.for_each_block(slot.chunk, [&](const Block& block) {
    std::uint32_t* dst = words + block.first_word;
    if (store != numerics::Store::kAdd) std::memset(words + written, 0, 4 * (block.first_word - written));
    written = block.first_word + block.words;
    if (pass.phase == Phase::kFlags) {
      block.codec->flags(codec_, block.in, block.elements, store, dst);
    } else {
      block.codec->encode(codec_, block.in, block.elements, global[block.index], scale_, store, dst);
    }
  });
}

void Worker::decode_flags(std::size_t index, const Result& result) {
  Slot& slot = slots_[index];
  entry(slot.collective).layout.for_each_block(slot.chunk, [&](const Block& block) {
    // In place, the finite elements still have to be summed.
    const bool clear = block.in != block.out;
    block.codec->apply_flags(codec_, result.word_data + block.first_word, block.elements, result.order, clear, block.out);
  });
  slot.flagged = true;
}

void Worker::decode_data(std::size_t index, const Result& result) {
  Slot& slot = slots_[index];
  const std::uint8_t* global = exponents(index);
  entry(slot.collective).layout.for_each_block(slot.chunk, [&](const Block& block) {
    block.codec->decode(codec_, result.word_data + block.first_word, block.elements, global[block.index], scale_,
                        result.order, slot.flagged, block.out);
  });
  slot.flagged = false;
}

}  // namespace jaxina
