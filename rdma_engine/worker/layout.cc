#include "rdma_engine/worker/layout.h"

namespace jaxina {

Layout::Layout(Collective collective, Geometry geometry)
    : collective_(std::move(collective)), geometry_(geometry) {
  first_block_.reserve(collective_.tensors.size() + 1);
  fingerprint_ = mix(mix(0, collective_.identity), collective_.tensors.size());
  for (const Tensor& tensor : collective_.tensors) {
    const numerics::ElementCodec& codec = numerics::element_codec(tensor.type);
    const std::size_t per_block = geometry_.block_size / codec.words;
    first_block_.push_back(blocks_);
    blocks_ += (tensor.count + per_block - 1) / per_block;
    has_exponents_ = has_exponents_ || codec.is_float;
    fingerprint_ = mix(mix(fingerprint_, static_cast<std::uint64_t>(tensor.type)), tensor.count);
  }
  first_block_.push_back(blocks_);
}

std::size_t Layout::blocks_in(std::size_t chunk) const {
  const std::size_t begin = chunk * geometry_.blocks_per_chunk;
  return std::min<std::size_t>(geometry_.blocks_per_chunk, blocks_ - begin);
}

std::size_t Layout::words_in(std::size_t chunk) const {
  const std::size_t index = blocks_in(chunk) - 1;
  const std::size_t last = chunk * geometry_.blocks_per_chunk + index;
  const Block block = describe(tensor_at(last), last, index);
  return block.first_word + block.words;
}

Block Layout::describe(std::size_t t, std::size_t block, std::size_t index_in_chunk) const {
  const Tensor& tensor = collective_.tensors[t];
  const numerics::ElementCodec& codec = numerics::element_codec(tensor.type);
  const std::size_t per_block = geometry_.block_size / codec.words;
  const std::size_t first = (block - first_block_[t]) * per_block;
  const std::size_t elements = std::min(per_block, tensor.count - first);
  return {&tensor,
          &codec,
          static_cast<const std::byte*>(tensor.in) + first * codec.size,
          static_cast<std::byte*>(tensor.out) + first * codec.size,
          elements,
          elements * codec.words,
          index_in_chunk,
          index_in_chunk * geometry_.block_size};
}

std::size_t Layout::tensor_at(std::size_t block) const {
  // The last tensor that starts at or before the block; empty tensors start where the next one does.
  const auto after = std::upper_bound(first_block_.begin(), first_block_.end() - 1, block);
  return static_cast<std::size_t>(after - first_block_.begin()) - 1;
}

}  // namespace jaxina
