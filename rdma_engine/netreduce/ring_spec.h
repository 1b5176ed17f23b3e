// RingSpec: what a transparent switch must know about a job: the connections of its ring, and where messages lie in the
// workers' memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
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

struct RingSpec {
  std::uint32_t job = 0;
  JobShape shape;
  std::size_t mtu = 0;              // payload bytes of a packet, if it is not a message's last
  std::vector<RingMember> members;  // members[i] is worker i's connection

  roce::MessageLayout layout() const { return roce::MessageLayout(shape, roce::Summed::kByPacket); }
  std::size_t most_packets() const { return roce::packets_of(layout().largest(), mtu); }
  // Throws Error(kInvalidArgument).
  void check() const {
    const auto require = [](bool holds, const std::string& what) {
      if (!holds) throw Error(ErrorCode::kInvalidArgument, what);
    };
    require(members.size() == shape.workers() && members.size() >= 2,
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
