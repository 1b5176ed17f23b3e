// BlockSums: the sums of one job at a transparent switch. Each packet-sized block of a pass is a slot of its own, with
// the slot rule's state and two versions (aggregator/slot.h), so sums stay until the pass after next begins. Words are
// added modulo 2^32, of exponents the largest stays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "rdma_engine/aggregator/slot.h"
#include "rdma_engine/netreduce/held_packets.h"
#include "rdma_engine/netreduce/message_ring.h"
#include "rdma_engine/netreduce/ring_spec.h"

namespace jaxina::netreduce {

class BlockSums {
 public:
  // The sum of so many contributions to each block.
  BlockSums(const RingSpec& spec, std::size_t contributions);
  // The bytes that the sums of such a job take.
  static std::size_t bytes_for(const RingSpec& spec);

  enum class Added : std::uint8_t {
    kCounted,
    kCompleted,    // all contributions are in the block
    kContradicts,  // another worker's message for this pass has another size, or a worker broke the slots' rule
  };
  // Adds block `index` of a worker's message. A worker's blocks of a pass come in their order, each once.
  Added add(std::uint32_t worker, const RingMessage& message, std::uint32_t index,
            std::span<const std::uint8_t> payload);

  // Whether the block's sum is complete and still there.
  bool has(const BlockName& block) const;
  // Whether the sum of this block is complete, and of messages with the same size as this one.
  bool has(const RingMessage& message, std::uint32_t index) const;
  // The sum of a block for which has() holds.
  std::span<const std::uint8_t> sum(const BlockName& block) const;

 private:
  struct Extent {
    std::uint32_t begins_in_place = 0, length = 0;
  };
  std::size_t version_at(std::uint16_t slot, std::uint32_t epoch) const { return 2 * std::size_t{slot} + (epoch & 1); }
  SlotState& state(std::uint16_t slot, std::uint32_t index) { return states_[slot * blocks_ + index]; }
  const SlotState& state(std::uint16_t slot, std::uint32_t index) const { return states_[slot * blocks_ + index]; }
  void begin(const RingMessage& message, std::uint32_t fingerprint);

  std::uint32_t workers_;
  std::size_t mtu_, blocks_, stride_, exponents_at_;
  std::vector<SlotState> states_;       // [slot * blocks_ + block]
  std::vector<Extent> extents_;         // [version_at()]
  std::vector<std::uint8_t> payloads_;  // [version_at() * stride_]: as in messages
};

}  // namespace jaxina::netreduce
