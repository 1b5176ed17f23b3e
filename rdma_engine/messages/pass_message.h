// PassName and MessageLayout: how a pass becomes one RDMA write, and where it is written. docs/rdma.md has the table.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "rdma_engine/datagrams/notices.h"
#include "rdma_engine/messages/ring_immediate.h"
#include "rdma_engine/shape/job_shape.h"
#include "rdma_engine/worker/pass.h"

namespace jaxina::roce {

// The pass that a write to the switch contains. It is encoded in the write's address.
struct PassName {
  std::uint32_t epoch = 0;
  std::uint16_t slot = 0;
  std::uint8_t exponents = 0;
  wire::Format format = wire::Format::kInt32;
  bool operator==(const PassName&) const = default;
};
constexpr std::uint64_t address_of(const PassName& name) {
  return std::uint64_t{name.epoch} << 32 | std::uint64_t{name.slot} << 16 | std::uint64_t{name.exponents} << 8 |
         static_cast<std::uint64_t>(name.format);
}
constexpr std::optional<PassName> pass_at(std::uint64_t address) {
  constexpr std::uint64_t kFormats = 3;
  if ((address & 0xff & ~kFormats) != 0) return std::nullopt;
  return PassName{static_cast<std::uint32_t>(address >> 32), static_cast<std::uint16_t>(address >> 16),
                  static_cast<std::uint8_t>(address >> 8), static_cast<wire::Format>(address & kFormats)};
}

// Words behind a pass's own with which a worker checks that a result is complete and its parts belong together:
// result_check.h. Packet processors that add a fixed number of words have no room for them.
inline constexpr std::size_t kCheckWords = 2;

// Who adds the words of messages.
enum class Summed : std::uint8_t {
  kByMessage,  // an aggregator that has whole messages. Each pass has an address of its own, which names it
  // A switch that adds packet by packet what passes between workers (netreduce/). It knows a message by its address in
  // the receiver's memory and by its length. So the exponents of all passes begin at one offset of their place: the
  // address then tells where the words begin, and the length how many exponents there are.
  kByPacket,
};

// Sizes and offsets that follow from a job's shape. Both sides compute the same ones.
class MessageLayout {
 public:
  explicit MessageLayout(const JobShape& shape, Summed summed = Summed::kByMessage) : shape_(shape), summed_(summed) {}

  std::size_t check_words() const { return shape_.whole_chunks() ? 0 : kCheckWords; }

  // Words that a pass takes in its message, without the check. If exponents follow, words of 32 bits are rounded up to
  // whole blocks.
  std::size_t words(const Pass& pass) const {
    const std::size_t k = shape_.block_size();
    const bool whole_blocks = pass.exponents > 0 && pass.format == wire::Format::kInt32;
    return whole_blocks ? (pass.words + k - 1) / k * k : pass.words;
  }
  // The offset of the exponents in bytes. Everything before it consists of words to be added.
  std::size_t exponents_at(const Pass& pass) const { return 4 * (words(pass) + check_words()); }
  std::size_t bytes(const Pass& pass) const { return exponents_at(pass) + wire::padded(pass.exponents); }
  std::size_t largest() const {
    return 4 * (shape_.words_per_pass() + check_words()) + wire::padded(shape_.exponents_per_pass());
  }

  // Where exponents begin in a place, for kByPacket.
  std::size_t exponents_in_place() const { return 4 * (shape_.words_per_pass() + check_words()); }
  // Where a pass's message begins in its place.
  std::size_t begins_in_place(const Pass& pass) const {
    return summed_ == Summed::kByPacket ? exponents_in_place() - exponents_at(pass) : 0;
  }
  // The bits of a message's immediate that are the pass's fingerprint. The check has the whole fingerprint.
  std::uint32_t fingerprint_bits() const { return summed_ == Summed::kByMessage ? 0xffffffff : kRingFingerprint; }
  // Whether the check of a result covers its exponents. A switch that adds packet by packet has let the check go before
  // the exponents come. They are still safe: the fingerprint of the next pass has a digest of them, and each worker
  // compares its own fingerprint with the one that comes with the result.
  bool is_sealed() const { return summed_ == Summed::kByMessage; }

  // Queue i carries slot i. One more queue carries the switch's notices.
  std::size_t queues() const { return std::size_t{shape_.slots()} + 1; }
  std::size_t notices() const { return shape_.slots(); }

  // The worker's receive memory: kPlaces results per slot, then one notice per slot, then the notice that ends the job.
  // All offsets are in bytes.
  static constexpr std::size_t kPlaces = 4;
  static constexpr std::size_t kNoticeSize = 256;
  static constexpr std::size_t kLastNoticeSize = 1024;
  std::size_t stride() const { return std::bit_ceil(largest()); }
  std::size_t result_place(std::size_t slot, std::uint32_t epoch) const {
    return (slot * kPlaces + epoch % kPlaces) * stride();
  }
  std::size_t notice_place(std::size_t slot) const { return shape_.slots() * kPlaces * stride() + slot * kNoticeSize; }
  std::size_t last_notice_place() const { return notice_place(shape_.slots()); }
  std::size_t receive_bytes() const { return last_notice_place() + kLastNoticeSize; }
  // The immediate of a notice is its slot, or this value for the notice that ends the job.
  static constexpr std::uint32_t kLastNotice = 0x10000;

 private:
  JobShape shape_;
  Summed summed_;
};

static_assert(wire::kHeaderSize + numerics::kMaxWorkers / 8 <= MessageLayout::kNoticeSize);
static_assert(wire::kHeaderSize + kMaxReason <= MessageLayout::kLastNoticeSize);
static_assert(kMaxSlots < MessageLayout::kLastNotice);

}  // namespace jaxina::roce
