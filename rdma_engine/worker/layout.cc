#include "rdma_engine/worker/layout.h"

namespace jaxina {

std::uint32_t fingerprint(const Collective& collective) {
  std::uint32_t result = mix(mix(0, collective.identity), collective.tensors.size());
  for (const Tensor& tensor : collective.tensors) {
    result = mix(mix(result, static_cast<std::uint64_t>(tensor.type)), tensor.count);
  }
  return result;
}

Layout::Layout(std::vector<Collective> contributions, Geometry geometry)
    : contributions_(std::move(contributions)),
      geometry_(geometry),
      fingerprint_(jaxina::fingerprint(contributions_.front())) {
  const std::vector<Tensor>& tensors = contributions_.front().tensors;
  first_block_.reserve(tensors.size() + 1);
  for (const Tensor& tensor : tensors) {
    const numerics::ElementCodec& codec = numerics::element_codec(tensor.type);
    const std::size_t per_block = geometry_.block_size / codec.words;
    first_block_.push_back(blocks_);
    blocks_ += (tensor.count + per_block - 1) / per_block;
    has_exponents_ = has_exponents_ || codec.is_float;
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
  const Tensor& tensor = contributions_.front().tensors[t];
  const numerics::ElementCodec& codec = numerics::element_codec(tensor.type);
  const std::size_t per_block = geometry_.block_size / codec.words;
  const std::size_t first = (block - first_block_[t]) * per_block;
  const std::size_t elements = std::min(per_block, tensor.count - first);
  return {&codec,        t, first * codec.size, elements, elements * codec.words, index_in_chunk,
          index_in_chunk * geometry_.block_size};
}

std::size_t Layout::tensor_at(std::size_t block) const {
  // The last tensor that starts at or before the block; empty tensors start where the next one does.
  const auto after = std::upper_bound(first_block_.begin(), first_block_.end() - 1, block);
  return static_cast<std::size_t>(after - first_block_.begin()) - 1;
}

}  // namespace jaxina
