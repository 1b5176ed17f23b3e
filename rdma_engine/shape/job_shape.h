// JobShape: the numbers that determine a job's memory and packets. The constructor checks every limit, so a JobShape is
// always valid. It is made once, where the numbers come in (from Python, or from a control message). Code that takes a
// JobShape does not check again.
#pragma once

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

  // Always fits the 16 bits that a pass has for its number of words.
  std::size_t words_per_chunk() const { return std::size_t{block_size_} * blocks_per_chunk_; }
  // Bytes of the largest pass as a datagram.
  std::size_t packet_size() const { return wire::packet_size(words_per_chunk(), blocks_per_chunk_); }

  // The same job with a smaller pool (or one of equal size).
  JobShape with_slots(std::uint32_t slots) const;

  bool operator==(const JobShape&) const = default;

 private:
  std::uint32_t devices_, workers_, slots_, block_size_, blocks_per_chunk_;
  bool whole_chunks_;
};

}  // namespace jaxina
