// RingSpec: what a transparent switch must know about a job: the connections of its ring that it sums, and where
// messages lie in the workers' memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rdma_engine/errors.h"
#include "rdma_engine/messages/pass_message.h"
#include "rdma_engine/messages/queue_pairs.h"

namespace jaxina::netreduce {

// The most packets that one connection may have at the switch: Linux's Soft-RoCE keeps at most so many unacknowledged.
inline constexpr std::size_t kMaxHeld = 128;

// The connection from worker i to worker i + 1, as its packets have it. Addresses are IPv4, in network order.
struct RingMember {
  std::array<std::uint8_t, 4> source{}, destination{};
  std::uint16_t port = roce::kUdpPort;  // UDP, the receiver's. NICs have no other
  std::uint32_t qpn = 0;                // the receiver's queue pair
  std::uint32_t first_psn = 0;
  std::uint32_t rkey = 0;    // of the receiver's memory
  std::uint64_t memory = 0;  // its address
};

// Where a switch stands in the job's network.
enum class Position : std::uint8_t {
  kAlone,  // between all workers
  kLeaf,   // between the workers of a rack. Its sums go up to the spine, and totals come down
  kSpine,  // between the leaves
};

struct RingSpec {
  std::uint32_t job = 0;
  JobShape shape;
  std::size_t mtu = 0;  // payload bytes of a packet, if it is not a message's last
  // The connections whose packets this switch adds, in the ring's order. Alone, those of all workers. A leaf: those of
  // its rack's workers, of which the last one leads to another rack. The spine: the last ones of all racks.
  std::vector<RingMember> members;
  Position position = Position::kAlone;
  std::optional<RingMember> from_above = {};  // of a leaf: the connection that comes from another rack

  roce::MessageLayout layout() const { return roce::MessageLayout(shape, roce::Summed::kByPacket); }
  std::size_t most_packets() const { return roce::packets_of(layout().largest(), mtu); }
  // Throws Error(kInvalidArgument).
  void check() const {
    const auto require = [](bool holds, const std::string& what) {
      if (!holds) throw Error(ErrorCode::kInvalidArgument, what);
    };
    const bool is_leaf = position == Position::kLeaf, is_alone = position == Position::kAlone;
    require(members.size() >= (is_leaf ? 1 : 2) && members.size() <= shape.workers() &&
                is_leaf == from_above.has_value() && (!is_alone || members.size() == shape.workers()),
            "a ring has two workers or more, with one connection each");
    require(mtu >= 4 && mtu % 4 == 0, "the MTU of a ring must be a multiple of 4");
    // Without the check words a result would not show how many workers are in it.
    require(!shape.whole_chunks(), "a transparent switch does not sum whole chunks");
    require(shape.slots() * most_packets() <= kMaxHeld,
            "all slots' messages together take " + std::to_string(shape.slots() * most_packets()) +
                " packets, and a reliable connection keeps " + std::to_string(kMaxHeld) +
                " unacknowledged; use fewer slots or smaller chunks");
  }
};

}  // namespace jaxina::netreduce
