#include "rdma_engine/shape/job_shape.h"

#include <limits>
#include <string>
#include <string_view>

#include "rdma_engine/base/assert.h"

namespace jaxina {
namespace {

using Field = std::uint64_t;

void require(std::string_view what, Field value, Field least, Field most) {
  if (value >= least && value <= most) return;
  throw Error(ErrorCode::kInvalidArgument, std::string(what) + " is between " + std::to_string(least) + " and " +
                                               std::to_string(most) + ", not " + std::to_string(value));
}

void require_workers(std::string_view what, Field value) {
  if (value <= numerics::kMaxWorkers) return require(what, value, 1, numerics::kMaxWorkers);
  throw Error(ErrorCode::kTooManyWorkers, std::string(what) + " is at most " + std::to_string(numerics::kMaxWorkers) +
                                              ", not " + std::to_string(value) +
                                              ": sum over a smaller mesh axis, or "
                                              "over two axes one after the other");
}

// These limits follow from the largest datagram.
static_assert(wire::kMaxPacketSize / sizeof(std::uint32_t) <= wire::kMaxWords);
static_assert(wire::kMaxBlocksPerChunk <= std::numeric_limits<std::uint8_t>::max());

}  // namespace

JobShape::JobShape(const ShapeRequest& r)
    : devices_(r.devices),
      workers_(r.workers),
      slots_(r.slots),
      block_size_(r.block_size),
      blocks_per_chunk_(r.blocks_per_chunk),
      whole_chunks_(r.whole_chunks) {
  require_workers("the number of workers of a job", r.workers);
  require_workers("the number of devices of a job", r.devices);
  if (r.devices < r.workers) {
    throw Error(ErrorCode::kInvalidArgument, "a job of " + std::to_string(r.workers) +
                                                 " workers has at least as many "
                                                 "devices, not " +
                                                 std::to_string(r.devices));
  }
  require("the number of slots", r.slots, 1, kMaxSlots);
  require("the block size", r.block_size, r.widest_element, numerics::kMaxBlockSize);
  require("the number of blocks per chunk", r.blocks_per_chunk, 1, wire::kMaxBlocksPerChunk);
  if (packet_size() > wire::kMaxPacketSize) {
    throw Error(ErrorCode::kInvalidArgument,
                "a chunk of " + std::to_string(r.blocks_per_chunk) + " blocks of " + std::to_string(r.block_size) +
                    " words makes packets of " + std::to_string(packet_size()) + " bytes; a datagram holds " +
                    std::to_string(wire::kMaxPacketSize) + ": lower JAXINA_BLOCK_SIZE or JAXINA_BLOCKS_PER_CHUNK");
  }
}

bool JobShape::admits(wire::Format format, std::size_t words, std::size_t exponents) const {
  if (exponents > exponents_per_pass()) return false;
  if (format == wire::Format::kInt32) {
    // Narrow words come first in a collective, so only a pass without words announces exponents of theirs.
    return words <= words_per_chunk() && (words == 0 || exponents <= blocks_per_chunk_);
  }
  if (!may_be_narrow() || words > words_per_pass()) return false;
  if (format == wire::Format::kFlags) return true;
  return words >= wire::kSeedWords && wire::narrow_elements(format, words) <= narrow_elements_per_pass();
}

JobShape JobShape::with_slots(std::uint32_t slots) const {
  JAXINA_ASSERT(slots >= 1 && slots <= slots_);
  JobShape other = *this;
  other.slots_ = slots;
  return other;
}

}  // namespace jaxina
