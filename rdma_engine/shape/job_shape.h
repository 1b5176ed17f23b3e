// The shape of a job: everything on which its memory and its packets depend. A JobShape can only be made if every limit
// holds. It is made once, where the numbers come in (from Python, or from a control message); all that take one check
// nothing again.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rdma_engine/errors.h"
#include "rdma_engine/numerics/block_fixed_point.h"
#include "rdma_engine/numerics/element_codec.h"
#include "rdma_engine/wire/packet.h"

namespace jaxina {

// A slot's number has 16 bits in packets.
inline constexpr std::uint32_t kMaxSlots = 65535;

// What somebody asks for.
struct ShapeRequest {
  std::uint32_t devices = 0;           // n: all that contribute, in all processes; sets the scale
  std::uint32_t workers = 0;           // that contribute to the aggregator: the job's processes
  std::uint32_t slots = 0;             // s
  std::uint32_t block_size = 0;        // k: words, and for the one-word types elements, that share an exponent
  std::uint32_t blocks_per_chunk = 0;  // a chunk is what one slot pass carries
  bool whole_chunks = false;  // the last chunk is filled with zeros, for aggregators that add fixed numbers of words
  // Words of the widest element that is summed. A job of narrow types alone, as the simulator's, may have smaller
  // blocks.
  std::uint32_t widest_element = numerics::kMinBlockSize;
};

class JobShape {
 public:
  // Throws Error(kTooManyWorkers, kInvalidArgument), with a sentence that names the limit and the remedy.
  explicit JobShape(const ShapeRequest& request);

  std::uint32_t devices() const { return devices_; }
  std::uint32_t workers() const { return workers_; }
  std::uint32_t slots() const { return slots_; }
  std::uint32_t block_size() const { return block_size_; }
  std::uint32_t blocks_per_chunk() const { return blocks_per_chunk_; }
  bool whole_chunks() const { return whole_chunks_; }

  // They fit the 16 bits that a pass has for its words.
  std::size_t words_per_chunk() const { return std::size_t{block_size_} * blocks_per_chunk_; }
  // The largest pass as a datagram.
  std::size_t packet_size() const { return wire::packet_size(words_per_chunk(), blocks_per_chunk_); }

  // The same job with a pool of another size, which is not above this one's.
  JobShape with_slots(std::uint32_t slots) const;

  bool operator==(const JobShape&) const = default;

 private:
  std::uint32_t devices_, workers_, slots_, block_size_, blocks_per_chunk_;
  bool whole_chunks_;
};

}  // namespace jaxina
