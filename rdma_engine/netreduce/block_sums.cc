#include "rdma_engine/netreduce/block_sums.h"

#include <algorithm>
#include <cstring>

#include "rdma_engine/base/assert.h"
#include "rdma_engine/base/narrow.h"
#include "rdma_engine/messages/add_message.h"
#include "rdma_engine/worker/layout.h"

namespace jaxina::netreduce {
namespace {

std::uint32_t extent_of(const RingMessage& message) { return mix(message.begins_in_place, message.length); }

}  // namespace

BlockSums::BlockSums(const RingSpec& spec, std::size_t contributions)
    : workers_(narrow<std::uint32_t>(contributions)),
      mtu_(spec.mtu),
      blocks_(spec.most_packets()),
      stride_(blocks_ * spec.mtu),
      exponents_at_(spec.layout().exponents_in_place()),
      states_(spec.shape.slots() * blocks_),
      extents_(2 * std::size_t{spec.shape.slots()}),
      payloads_(2 * spec.shape.slots() * stride_) {
  for (SlotState& state : states_) state.reset(workers_);
}

std::size_t BlockSums::bytes_for(const RingSpec& spec) {
  return sizeof(BlockSums) +
         spec.shape.slots() * (spec.most_packets() * (sizeof(SlotState) + 2 * spec.mtu) + 2 * sizeof(Extent));
}

// The pass's first block has begun, so the pass before is complete and all workers have the one before that. Passes
// have different numbers of blocks, so the others' versions may be of any earlier pass: all become this pass's, with
// nothing in them.
void BlockSums::begin(const RingMessage& message, std::uint32_t fingerprint) {
  for (std::uint32_t index = 1; index < blocks_; ++index) {
    state(message.slot, index).version(message.epoch) = {message.epoch, fingerprint, 0, 0, {}};
  }
  const std::size_t version = version_at(message.slot, message.epoch);
  extents_[version] = {message.begins_in_place, message.length};
  std::memset(&payloads_[version * stride_], 0, stride_);
}

BlockSums::Added BlockSums::add(std::uint32_t worker, const RingMessage& message, std::uint32_t index,
                                std::span<const std::uint8_t> payload) {
  const std::uint32_t extent = extent_of(message);
  const Outcome outcome = apply_update(state(message.slot, index), workers_,
                                       {.worker = worker, .epoch = message.epoch, .fingerprint = extent});
  switch (outcome.verdict) {
    case Verdict::kFirst:
      if (index != 0) return Added::kContradicts;
      begin(message, extent);
      break;
    case Verdict::kAdd: break;
    case Verdict::kAhead:
    case Verdict::kMismatch:
    // A worker's epochs count its messages, each packet is taken once, and no worker begins a pass before it has the
    // result of the one before. Only who breaks that rule comes here: at a spine its messages may overtake each other,
    // and its next passes take the place of a pass that another worker has not finished.
    case Verdict::kReplace:
    case Verdict::kDuplicate:
    case Verdict::kResend:
    case Verdict::kOverlap:
    case Verdict::kStale: return Added::kContradicts;
  }
  const std::size_t offset = index * mtu_;
  std::uint8_t* sums = &payloads_[version_at(message.slot, message.epoch) * stride_ + offset];
  const std::size_t in_place = message.begins_in_place + offset;
  const std::size_t words = in_place < exponents_at_ ? std::min(payload.size(), exponents_at_ - in_place) : 0;
  roce::add_message({sums, payload.size()}, payload, words);
  return outcome.completes ? Added::kCompleted : Added::kCounted;
}

bool BlockSums::has(const BlockName& block) const {
  const SlotVersion& version = state(block.slot, block.index).version(block.epoch);
  return version.epoch == block.epoch && version.count == workers_;
}

bool BlockSums::has(const RingMessage& message, std::uint32_t index) const {
  const SlotVersion& version = state(message.slot, index).version(message.epoch);
  return has({message.slot, message.epoch, index}) && version.fingerprint == extent_of(message);
}

std::span<const std::uint8_t> BlockSums::sum(const BlockName& block) const {
  JAXINA_ASSERT(has(block));
  const std::size_t version = version_at(block.slot, block.epoch), offset = block.index * mtu_;
  return {&payloads_[version * stride_ + offset], std::min<std::size_t>(mtu_, extents_[version].length - offset)};
}

}  // namespace jaxina::netreduce
