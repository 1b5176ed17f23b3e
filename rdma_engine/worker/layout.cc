#include "rdma_engine/worker/layout.h"

#include <algorithm>

namespace jaxina {

Layout::Layout(Collective collective, Geometry geometry)
    : collective_(std::move(collective)), geometry_(geometry) {
  first_block_.reserve(collective_.tensors.size() + 1);
  fingerprint_ = mix(0, collective_.tensors.size());
  for (const Tensor& tensor : collective_.tensors) {
    first_block_.push_back(blocks_);
    blocks_ += (tensor.count + geometry_.block_size - 1) / geometry_.block_size;
    has_exponents_ = has_exponents_ || tensor.type == ElementType::kFloat32;
    fingerprint_ = mix(mix(fingerprint_, static_cast<std::uint64_t>(tensor.type)), tensor.count);
  }
  first_block_.push_back(blocks_);
}

std::size_t Layout::blocks_in(std::size_t chunk) const {
  const std::size_t begin = chunk * geometry_.blocks_per_chunk;
  return std::min<std::size_t>(geometry_.blocks_per_chunk, blocks_ - begin);
}

std::size_t Layout::words_in(std::size_t chunk) const {
  const std::size_t last = chunk * geometry_.blocks_per_chunk + blocks_in(chunk) - 1;
  const std::size_t t = tensor_at(last);
  const std::size_t before = (last - first_block_[t]) * geometry_.block_size;
  const std::size_t in_last = std::min<std::size_t>(geometry_.block_size, collective_.tensors[t].count - before);
  return (blocks_in(chunk) - 1) * geometry_.block_size + in_last;
}

std::size_t Layout::elements() const {
  std::size_t total = 0;
  for (const Tensor& tensor : collective_.tensors) total += tensor.count;
  return total;
}

std::size_t Layout::tensor_at(std::size_t block) const {
  // The last tensor that starts at or before the block; empty tensors start where the next one does.
  const auto after = std::upper_bound(first_block_.begin(), first_block_.end() - 1, block);
  return static_cast<std::size_t>(after - first_block_.begin()) - 1;
}

}  // namespace jaxina
