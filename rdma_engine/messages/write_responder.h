// WriteResponder: the receiving half of one UC queue pair. It checks sequence numbers and writes the payload. It is
// sans-IO. Like a NIC, after a gap it drops packets until the first packet of the next message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "rdma_engine/wire/roce.h"

namespace jaxina::roce {

enum class Placement : std::uint8_t {
  kPlaced,         // a part of a message was written
  kComplete,       // the message is complete
  kOutOfSequence,  // packets before it were lost, or it is a duplicate
  kBadLength,      // contradicts the message's length or the MTU
  kNoAccess,       // nothing may be written to that address
};

class WriteResponder {
 public:
  // Processes one packet. Calls `resolve(headers)` once per message, with the headers of its first packet. It returns
  // where to write headers.length bytes, or nullptr. After kComplete, message() is valid until the next packet.
  template <typename Resolve>
  Placement on_packet(const Packet& packet, std::size_t mtu, Resolve resolve) {
    const Headers& h = packet.headers;
    const std::size_t size = packet.payload.size();
    if (begins_message(h.opcode)) {
      const bool only = ends_message(h.opcode);
      if (only ? size != h.length || size > mtu : size != mtu || h.length <= mtu) return Placement::kBadLength;
      // A sender without access must not disturb a message in progress, so nothing has been changed yet.
      std::uint8_t* place = resolve(h);
      if (place == nullptr) return Placement::kNoAccess;
      place_ = place;
      first_ = h;
      received_ = 0;
      receiving_ = false;
    } else {
      if (!std::exchange(receiving_, false) || h.psn != expected_) return Placement::kOutOfSequence;
      const std::size_t left = first_.length - received_;
      if (ends_message(h.opcode) ? size != left || size > mtu || size == 0 : size != mtu || size >= left) {
        return Placement::kBadLength;
      }
    }
    if (size > 0) std::memcpy(place_ + received_, packet.payload.data(), size);
    received_ += size;
    expected_ = (h.psn + 1) & kMask24;
    if (!ends_message(h.opcode)) {
      receiving_ = true;
      return Placement::kPlaced;
    }
    first_.immediate = h.immediate;
    return Placement::kComplete;
  }

  // The headers of the complete message's first packet, with the message's immediate.
  const Headers& message() const { return first_; }

 private:
  bool receiving_ = false;
  std::uint32_t expected_ = 0;  // the next sequence number, while receiving_
  std::uint8_t* place_ = nullptr;
  std::size_t received_ = 0;
  Headers first_;
};

}  // namespace jaxina::roce
