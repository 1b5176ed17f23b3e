// Layout: how a collective's tensors lie in the stream. They are cut into blocks of k words, which never span two
// tensors, and `blocks_per_chunk` consecutive blocks form a chunk. A chunk may hold blocks of several tensors, so many
// small tensors share slot passes. Several local devices may contribute to one stream; their tensors have equal types
// and sizes, so they have one layout.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "rdma_engine/numerics/element_codec.h"
#include "rdma_engine/shape/job_shape.h"
#include "rdma_engine/worker/tensor.h"

namespace jaxina {

// One block of one tensor, with its place in its chunk.
struct Block {
  const numerics::ElementCodec* codec;
  std::size_t tensor;  // index in the collective
  std::size_t offset;  // of the block's first byte in the tensor
  std::size_t elements;
  std::size_t words;       // elements * codec->words
  std::size_t index;       // in the chunk
  std::size_t first_word;  // in the chunk
};

// One number that workers can compare: a hash of the call's identity and its tensors' types, sizes and order.
std::uint32_t fingerprint(const Collective& collective);

class Layout {
 public:
  // contributions[d] is that of local device d. There is at least one, and all have the same fingerprint.
  Layout(std::vector<Collective> contributions, const JobShape& shape);

  std::size_t chunks() const { return chunks_; }
  std::size_t blocks_in(std::size_t chunk) const;
  // How many words a chunk has. Every block but the last takes the space of a whole block. The last takes only its own
  // words, unless the job's shape wants whole chunks.
  std::size_t words_in(std::size_t chunk) const;
  bool has_exponents() const { return has_exponents_; }
  std::uint32_t fingerprint() const { return fingerprint_; }

  // chunk_bytes: the distance in bytes from the block to the block one chunk later in the same tensor.
  // has_block_a_chunk_later: whether the tensor has elements there.
  std::size_t chunk_bytes(const Block& block) const {
    return shape_.blocks_per_chunk() * cuts_[block.tensor].elements * block.codec->size;
  }
  bool has_block_a_chunk_later(const Block& block) const {
    return block.offset + chunk_bytes(block) < cuts_[block.tensor].count * block.codec->size;
  }

  std::size_t devices() const { return contributions_.size(); }
  // Either all contributions are on devices, or none is.
  bool on_devices() const { return contributions_.front().device != nullptr; }
  TensorDevice* device(std::size_t index) const { return contributions_[index].device; }
  const std::byte* in(std::size_t device, const Block& block) const {
    return static_cast<const std::byte*>(contributions_[device].tensors[block.tensor].in) + block.offset;
  }
  // Reports that this many numbers of the local device's tensors became zero.
  void count_rounded_to_zero(std::size_t device, std::size_t numbers) const {
    std::atomic<std::uint64_t>* count = contributions_[device].rounded_to_zero;
    if (numbers != 0 && count != nullptr) count->fetch_add(numbers, std::memory_order_relaxed);
  }
  bool streams(std::size_t device, const Block& block) const {
    return contributions_[device].tensors[block.tensor].streams;
  }
  std::byte* out(std::size_t device, const Block& block) const {
    return static_cast<std::byte*>(contributions_[device].tensors[block.tensor].out) + block.offset;
  }

  // Iterates over the blocks of a chunk, in order.
  class Cursor {
   public:
    // nullopt after the last block.
    std::optional<Block> block() const {
      return block_ < end_ ? std::optional(layout_->describe(tensor_, block_, block_ - begin_)) : std::nullopt;
    }
    // How many blocks, starting with this one, have the same size and are in the same tensor. Their elements are
    // contiguous in the tensor, and their words are contiguous in the chunk.
    std::size_t equal_blocks() const;
    void advance(std::size_t blocks);

   private:
    friend class Layout;
    Cursor(const Layout& layout, std::size_t chunk)
        : layout_(&layout),
          begin_(chunk * layout.shape_.blocks_per_chunk()),
          end_(begin_ + layout.blocks_in(chunk)),
          block_(begin_),
          tensor_(layout.tensor_at(begin_)) {}
    const Layout* layout_;
    std::size_t begin_, end_, block_, tensor_;
  };
  Cursor blocks_of(std::size_t chunk) const { return {*this, chunk}; }

  // Calls visit(block) for each block of the chunk, in order.
  template <typename Visit>
  void for_each_block(std::size_t chunk, Visit visit) const {
    Cursor cursor = blocks_of(chunk);
    for (; const std::optional<Block> block = cursor.block(); cursor.advance(1)) visit(*block);
  }

 private:
  // The properties that all blocks of a tensor share.
  struct Cut {
    const numerics::ElementCodec* codec;
    std::size_t elements;  // of a whole block
    std::size_t count;     // elements of the tensor
  };

  std::size_t tensor_at(std::size_t block) const;
  Block describe(std::size_t t, std::size_t block, std::size_t index_in_chunk) const {
    const Cut& cut = cuts_[t];
    const std::size_t first = (block - first_block_[t]) * cut.elements;
    const std::size_t elements = std::min(cut.elements, cut.count - first);
    return {cut.codec,
            t,
            first * cut.codec->size,
            elements,
            elements * cut.codec->words,
            index_in_chunk,
            index_in_chunk * shape_.block_size()};
  }

  std::vector<Collective> contributions_;
  JobShape shape_;
  std::vector<Cut> cuts_;                 // per tensor
  std::vector<std::size_t> first_block_;  // per tensor, and the total at the end
  std::size_t blocks_ = 0;
  std::size_t chunks_ = 0;  // cached: computing it takes a division, and every pass needs it several times
  bool has_exponents_ = false;
  std::uint32_t fingerprint_ = 0;
};

inline std::size_t Layout::Cursor::equal_blocks() const {
  const Cut& cut = layout_->cuts_[tensor_];
  const std::size_t index = block_ - layout_->first_block_[tensor_], whole = cut.count / cut.elements;
  return index < whole ? std::min(whole - index, end_ - block_) : 1;
}

inline void Layout::Cursor::advance(std::size_t blocks) {
  block_ += blocks;
  while (block_ < end_ && block_ >= layout_->first_block_[tensor_ + 1]) ++tensor_;
}

// One step of the hash for fingerprints: MurmurHash3's 32-bit finalizer, applied to each half of the value.
constexpr std::uint32_t mix(std::uint32_t hash, std::uint64_t value) {
  for (int half = 0; half < 2; ++half) {
    hash ^= static_cast<std::uint32_t>(value >> (32 * half));
    hash ^= hash >> 16;
    hash *= 0x85ebca6bu;
    hash ^= hash >> 13;
    hash *= 0xc2b2ae35u;
    hash ^= hash >> 16;
  }
  return hash;
}

// A hash of exponents.
std::uint32_t digest(std::span<const std::uint8_t> exponents);

}  // namespace jaxina
