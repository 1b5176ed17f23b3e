#include "rdma_engine/worker/layout.h"

#include <cstring>

namespace jaxina {

std::uint32_t fingerprint(const Collective& collective) {
  std::uint32_t result = mix(mix(0, collective.identity), collective.tensors.size());
  for (const Tensor& tensor : collective.tensors) {
    result = mix(mix(result, static_cast<std::uint64_t>(tensor.type)), tensor.count);
  }
  return result;
}

Layout::Layout(std::vector<Collective> contributions, const JobShape& shape)
    : contributions_(std::move(contributions)),
      shape_(shape),
      fingerprint_(jaxina::fingerprint(contributions_.front())) {
  const std::vector<Tensor>& tensors = contributions_.front().tensors;
  cuts_.reserve(tensors.size());
  first_block_.reserve(tensors.size() + 1);
  for (const Tensor& tensor : tensors) {
    const numerics::ElementCodec& codec = numerics::element_codec(tensor.type);
    const std::size_t per_block = shape_.block_size() / codec.words;
    cuts_.push_back({&codec, per_block, tensor.count});
    first_block_.push_back(blocks_);
    blocks_ += (tensor.count + per_block - 1) / per_block;
    has_exponents_ = has_exponents_ || codec.is_float;
  }
  first_block_.push_back(blocks_);
  chunks_ = (blocks_ + shape_.blocks_per_chunk() - 1) / shape_.blocks_per_chunk();
}

std::size_t Layout::blocks_in(std::size_t chunk) const {
  const std::size_t begin = chunk * shape_.blocks_per_chunk();
  return std::min<std::size_t>(shape_.blocks_per_chunk(), blocks_ - begin);
}

std::size_t Layout::words_in(std::size_t chunk) const {
  if (shape_.whole_chunks()) return shape_.words_per_chunk();
  const std::size_t index = blocks_in(chunk) - 1;
  const std::size_t last = chunk * shape_.blocks_per_chunk() + index;
  const Block block = describe(tensor_at(last), last, index);
  return block.first_word + block.words;
}

std::size_t Layout::tensor_at(std::size_t block) const {
  // The last tensor that starts at or before the block. An empty tensor starts where the next one does, so the search
  // skips it.
  const auto after = std::upper_bound(first_block_.begin(), first_block_.end() - 1, block);
  return static_cast<std::size_t>(after - first_block_.begin()) - 1;
}

std::uint32_t digest(std::span<const std::uint8_t> exponents) {
  std::uint32_t result = 0;
  for (std::size_t done = 0; done < exponents.size(); done += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, exponents.data() + done, std::min(exponents.size() - done, sizeof(word)));
    result = mix(result, word);
  }
  return result;
}

}  // namespace jaxina
