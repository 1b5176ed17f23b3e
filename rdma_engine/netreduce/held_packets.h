// HeldPackets: the headers of one connection's packets that wait for their sums, by their numbers. Each
// packet leaves with its own headers: its marks of congestion, its request for an acknowledgement, its IP
// identification.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "rdma_engine/base/assert.h"
#include "rdma_engine/base/narrow.h"
#include "rdma_engine/netreduce/ring_spec.h"
#include "rdma_engine/wire/roce_frame.h"

namespace jaxina::netreduce {

// A packet-sized part of a pass.
struct BlockName {
  std::uint16_t slot = 0;
  std::uint32_t epoch = 0;
  std::uint32_t index = 0;  // in the message
};

struct HeldPacket {
  BlockName block;
  std::uint16_t egress = 0;  // where the frame leaves the switch
  std::uint8_t size = 0;
  bool is_taken = false;
  bool is_sent = false;  // a leaf's sum, before others of the connection: ring_job.h
  std::array<std::uint8_t, roce::kMaxFrameHeaders> headers;

  void keep(std::span<const std::uint8_t> its_headers, std::uint16_t to) {
    size = narrow<std::uint8_t>(its_headers.size());
    std::copy(its_headers.begin(), its_headers.end(), headers.begin());
    egress = to;
  }
};

class HeldPackets {
 public:
  static bool has_room(std::uint64_t distance) { return distance < kMaxHeld; }
  // The packet that is this far behind the first one that has not been released.
  HeldPacket& at(std::uint64_t distance) {
    JAXINA_ASSERT(has_room(distance));
    return packets_[(first_ + distance) % kMaxHeld];
  }
  void pop() {
    at(0).is_taken = at(0).is_sent = false;
    first_ = (first_ + 1) % kMaxHeld;
  }

 private:
  std::array<HeldPacket, kMaxHeld> packets_;
  std::size_t first_ = 0;
};

}  // namespace jaxina::netreduce
