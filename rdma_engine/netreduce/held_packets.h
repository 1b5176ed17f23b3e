// HeldPackets: the headers of one connection's packets that wait for their sums, in the order of their numbers. Each
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
  std::array<std::uint8_t, roce::kMaxFrameHeaders> headers;

  void keep(std::span<const std::uint8_t> its_headers, std::uint16_t to) {
    size = narrow<std::uint8_t>(its_headers.size());
    std::copy(its_headers.begin(), its_headers.end(), headers.begin());
    egress = to;
  }
};

class HeldPackets {
 public:
  bool is_full() const { return count_ == kMaxHeld; }
  bool is_empty() const { return count_ == 0; }
  HeldPacket& add() {
    JAXINA_ASSERT(!is_full());
    return at(count_++);
  }
  // The packet that is this far behind the oldest.
  HeldPacket& at(std::size_t distance) { return packets_[(first_ + distance) % kMaxHeld]; }
  void pop() {
    JAXINA_ASSERT(!is_empty());
    first_ = (first_ + 1) % kMaxHeld;
    --count_;
  }

 private:
  std::array<HeldPacket, kMaxHeld> packets_;
  std::size_t first_ = 0, count_ = 0;
};

}  // namespace jaxina::netreduce
