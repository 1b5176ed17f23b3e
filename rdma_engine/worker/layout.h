// Layout: how a collective's tensors lie in the stream. They are cut into blocks of k words, which never span two
// tensors, and consecutive blocks form a chunk. A chunk may hold blocks of several tensors, so many small tensors share
// slot passes. Several local devices may contribute to one stream; their tensors have equal types and sizes, so they
// have one layout.
//
// All words of a chunk have the same width. Tensors with narrow words come first, in chunks of their own.
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
  std::size_t first_word;  // in the chunk; of packed words: behind the seed
  numerics::WireWord word;
  std::uint64_t number;  // of narrow words: among all such blocks of the collective
};

// How a chunk's narrow words lie in a pass.
enum class Packing : std::uint8_t {
  kWhole,   // one 32-bit word each, as sums are in memory that the workers share
  kPacked,  // as in packets (wire::Format)
  kNone,    // not at all: they are refused
};

// 32-bit words that the packed flags of a block take, 2 bits for each of its elements.
inline std::size_t flag_words(const JobShape& shape) { return numerics::packed_flags_size(shape.block_size()); }

// One number that workers can compare: a hash of the call's identity and its tensors' types, sizes and order.
std::uint32_t fingerprint(const Collective& collective);

class Layout {
 public:
  // contributions[d] is that of local device d. There is at least one, and all have the same fingerprint.
  // Throws Error(kInvalidArgument) if tensors have narrow words, which this job cannot have.
  Layout(std::vector<Collective> contributions, const JobShape& shape, Packing packing = Packing::kWhole);

  std::size_t chunks() const { return chunks_; }
  std::size_t blocks_in(std::size_t chunk) const;
  // How many 32-bit words a pass with the chunk's data or flags has. Every block but the last takes the space of a
  // whole block. The last takes only its own words, unless the job's shape wants whole chunks.
  std::size_t words_in(std::size_t chunk, bool flags) const;
  wire::Format format_of(std::size_t chunk, bool flags) const;
  bool has_narrow_words() const { return narrow_.blocks > 0; }
  bool has_exponents() const { return has_exponents_; }
  std::uint32_t fingerprint() const { return fingerprint_; }

  // chunk_bytes: the distance in bytes from the block to the block one chunk later in the same tensor.
  // has_block_a_chunk_later: whether the tensor has elements there.
  std::size_t chunk_bytes(const Block& block) const {
    const std::size_t per_block =
        block.word == numerics::WireWord::kInt32 ? shape_.block_size() / block.codec->words : shape_.block_size();
    return (block.word == numerics::WireWord::kInt32 ? rest_ : narrow_).blocks_per_chunk * per_block *
           block.codec->size;
  }
  bool has_block_a_chunk_later(const Block& block) const {
    const std::size_t count = contributions_.front().tensors[block.tensor].count;
    return block.offset + chunk_bytes(block) < count * block.codec->size;
  }

  std::size_t devices() const { return contributions_.size(); }
  // Either all contributions are on devices, or none is.
  bool on_devices() const { return contributions_.front().device != nullptr; }
  TensorDevice* device(std::size_t index) const { return contributions_[index].device; }
  const numerics::Rounding& rounding() const { return contributions_.front().rounding; }
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
      return block_ < end_ ? std::optional(layout_->describe(cut_, block_, block_ - begin_)) : std::nullopt;
    }
    // How many blocks, starting with this one, have the same size and are in the same tensor. Their elements are
    // contiguous in the tensor, and their words are contiguous in the chunk.
    std::size_t equal_blocks() const;
    void advance(std::size_t blocks);

   private:
    friend class Layout;
    Cursor(const Layout& layout, std::size_t chunk)
        : layout_(&layout),
          begin_(layout.first_block_of(chunk)),
          end_(begin_ + layout.blocks_in(chunk)),
          block_(begin_),
          cut_(layout.cut_at(begin_)) {}
    const Layout* layout_;
    std::size_t begin_, end_, block_, cut_;
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
    std::size_t tensor;    // index in the collective
    std::size_t elements;  // of a whole block
    std::size_t count;     // elements of the tensor
    numerics::WireWord word;
    std::size_t first_block;
  };
  // The chunks whose words have one width.
  struct Section {
    std::size_t first_block = 0, first_chunk = 0;
    std::size_t blocks = 0, chunks = 0;
    std::size_t blocks_per_chunk = 1;
    std::size_t words_per_block = 0;
    wire::Format format = wire::Format::kInt32;
  };

  void add_tensors(bool narrow);
  void close(Section& section, std::size_t first_chunk);
  const Section& section_of(std::size_t chunk) const { return chunk < narrow_.chunks ? narrow_ : rest_; }
  std::size_t first_block_of(std::size_t chunk) const {
    const Section& section = section_of(chunk);
    return section.first_block + (chunk - section.first_chunk) * section.blocks_per_chunk;
  }
  std::size_t cut_at(std::size_t block) const;
  Block describe(std::size_t index, std::size_t block, std::size_t index_in_chunk) const {
    const Cut& cut = cuts_[index];
    const std::size_t first = (block - cut.first_block) * cut.elements;
    const std::size_t elements = std::min(cut.elements, cut.count - first);
    const Section& section = block < narrow_.blocks ? narrow_ : rest_;
    return {cut.codec,
            cut.tensor,
            first * cut.codec->size,
            elements,
            section.format == wire::Format::kInt32 ? elements * cut.codec->words
                                                   : numerics::packed_size(elements, cut.word),
            index_in_chunk,
            index_in_chunk * section.words_per_block,
            cut.word,
            narrow_blocks_before_ + block};
  }

  std::vector<Collective> contributions_;
  JobShape shape_;
  std::uint64_t narrow_blocks_before_;
  std::vector<Cut> cuts_;  // one per tensor, in the order of their blocks
  Section narrow_, rest_;
  std::size_t blocks_ = 0;
  std::size_t chunks_ = 0;
  bool has_exponents_ = false;
  std::uint32_t fingerprint_ = 0;
};

inline std::size_t Layout::Cursor::equal_blocks() const {
  const Cut& cut = layout_->cuts_[cut_];
  const std::size_t index = block_ - cut.first_block, whole = cut.count / cut.elements;
  return index < whole ? std::min(whole - index, end_ - block_) : 1;
}

inline void Layout::Cursor::advance(std::size_t blocks) {
  block_ += blocks;
  const std::vector<Cut>& cuts = layout_->cuts_;
  while (block_ < end_ && cut_ + 1 < cuts.size() && block_ >= cuts[cut_ + 1].first_block) ++cut_;
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
