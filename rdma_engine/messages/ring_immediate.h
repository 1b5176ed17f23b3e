// The immediate of a message in a ring (docs/netreduce.md). One queue pair has the messages of all slots, and an RDMA
// device does not say where it has written one. So the immediate says it:
//
//   | 23 bits of the pass's fingerprint | kind 2 | slot 7 |
//
// The workers write the kinds 0 and 1, a switch the others. A switch adds bits only, so several may follow each other.
#pragma once

#include <cstddef>
#include <cstdint>

namespace jaxina::roce {

enum class RingKind : std::uint8_t {
  kAsSent = 0,        // with a switch: nobody has summed it. Without one: a result
  kPartial = 1,       // a partial sum in a ring without a switch
  kSummed = 2,        // all packets of the message have left a switch with sums
  kContradicted = 3,  // a switch passes on what the worker sent, because workers contradict each other
};

inline constexpr std::size_t kRingSlots = 128;
inline constexpr std::uint32_t kRingFingerprint = 0xfffffe00;

constexpr std::uint32_t bits_of(RingKind kind) { return static_cast<std::uint32_t>(kind) << 7; }
constexpr RingKind ring_kind_of(std::uint32_t immediate) { return static_cast<RingKind>(immediate >> 7 & 3); }
constexpr std::size_t ring_slot_of(std::uint32_t immediate) { return immediate & (kRingSlots - 1); }
constexpr std::uint32_t ring_immediate(std::size_t slot, RingKind kind, std::uint32_t fingerprint) {
  return (fingerprint & kRingFingerprint) | bits_of(kind) | static_cast<std::uint32_t>(slot);
}

}  // namespace jaxina::roce
