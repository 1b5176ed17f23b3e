// JobShape: the numbers that determine a job's memory and packets. The constructor checks every limit, so a JobShape is
// always valid. It is made once, where the numbers come in (from Python, or from a control message). Code that takes a
// JobShape does not check again.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "rdma_engine/errors.h"
#include "rdma_engine/numerics/block_fixed_point.h"
#include "rdma_engine/numerics/element_codec.h"
#include "rdma_engine/wire/packet.h"

namespace jaxina {

// Packets carry a slot's number in 16 bits.
inline constexpr std::uint32_t kMaxSlots = 65535;

// Unchecked numbers, from which a JobShape is made.
struct ShapeRequest {
  std::uint32_t devices = 0;  // n: devices that contribute, in all processes; determines the scale
  std::uint32_t workers = 0;  // workers of the aggregator: the job's processes
  std::uint32_t slots = 0;    // s
  // k: words that share an exponent; for the one-word types this is the number of elements
  std::uint32_t block_size = 0;
  std::uint32_t blocks_per_chunk = 0;  // a chunk is the data of one slot pass
  bool whole_chunks = false;  // fill the last chunk with zeros, for aggregators that add a fixed number of words
  // Words of the widest element that is summed. A job with only narrow types, as in the simulator, may use smaller
  // blocks.
  std::uint32_t widest_element = numerics::kMinBlockSize;
};

class JobShape {
 public:
  // Throws Error(kTooManyWorkers, kInvalidArgument). The message names the limit and the remedy.
  explicit JobShape(const ShapeRequest& request);

  std::uint32_t devices() const { return devices_; }
  std::uint32_t workers() const { return workers_; }
  std::uint32_t slots() const { return slots_; }
  std::uint32_t block_size() const { return block_size_; }
  std::uint32_t blocks_per_chunk() const { return blocks_per_chunk_; }
  bool whole_chunks() const { return whole_chunks_; }

  // Devices of each process, at least; exactly, if processes have equally many.
  std::uint32_t devices_per_worker() const { return devices_ / workers_; }

  // Always fits the bits that a pass has for its number of words, with the seed of narrow words.
  std::size_t words_per_chunk() const { return std::size_t{block_size_} * blocks_per_chunk_; }

  // Narrow words of a block must fill whole 32-bit words. Aggregators that add a fixed number of words have words of 32
  // bits only.
  bool may_be_narrow() const { return !whole_chunks_ && block_size_ % numerics::kNarrowBlockStep == 0; }
  // 32-bit words that the packed narrow words of a block take.
  std::size_t narrow_block_words(numerics::WireWord word) const { return numerics::packed_size(block_size_, word); }
  // Blocks of a chunk of packed narrow words: as many as take the chunk's bytes.
  std::size_t narrow_blocks_per_chunk(numerics::WireWord word) const {
    return std::min<std::size_t>(words_per_chunk() / narrow_block_words(word), wire::kMaxBlocksPerChunk);
  }
  // The most words and exponents that a pass can have.
  std::size_t words_per_pass() const { return words_per_chunk() + (may_be_narrow() ? wire::kSeedWords : 0); }
  std::size_t exponents_per_pass() const {
    return may_be_narrow() ? narrow_blocks_per_chunk(numerics::WireWord::kInt8) : blocks_per_chunk_;
  }
  // The most elements that a pass of packed narrow words can have.
  std::size_t narrow_elements_per_pass() const {
    return may_be_narrow() ? narrow_blocks_per_chunk(numerics::WireWord::kInt8) * block_size_ : 0;
  }

  // Whether a pass can have so many 32-bit words in this format, and so many exponents.
  bool admits(wire::Format format, std::size_t words, std::size_t exponents) const;

  // Bytes of the largest pass as a datagram.
  std::size_t packet_size() const { return wire::packet_size(words_per_pass(), exponents_per_pass()); }

  // The same job with a smaller pool (or one of equal size).
  JobShape with_slots(std::uint32_t slots) const;

  bool operator==(const JobShape&) const = default;

 private:
  std::uint32_t devices_, workers_, slots_, block_size_, blocks_per_chunk_;
  bool whole_chunks_;
};

}  // namespace jaxina
