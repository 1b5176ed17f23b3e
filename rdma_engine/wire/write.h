// Write: an RDMA Write with Immediate to be sent, and functions that cut it into packets.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "rdma_engine/base/address.h"
#include "rdma_engine/base/narrow.h"
#include "rdma_engine/wire/packet.h"
#include "rdma_engine/wire/roce.h"

namespace jaxina::roce {

// The destination and the content of a write. The payload may be in two parts.
struct Write {
  Address peer;
  std::uint32_t qpn = 0;
  std::uint32_t rkey = 0;
  std::uint64_t address = 0;
  std::uint32_t immediate = 0;
  std::span<const std::uint8_t> head, tail;
  std::size_t size() const { return head.size() + tail.size(); }
};

// Calls packet(headers, offset, size) for each packet of the write. A packet carries payload bytes [offset, offset +
// size), at most `mtu` of them. `psn` is the first packet's sequence number; on return it is the next message's.
template <typename PacketOf>
void cut_into_packets(const Write& write, std::size_t mtu, std::uint32_t& psn, PacketOf packet) {
  Headers headers{.qpn = write.qpn,
                  .psn = psn,
                  .address = write.address,
                  .rkey = write.rkey,
                  .length = narrow<std::uint32_t>(write.size()),
                  .immediate = write.immediate};
  std::size_t offset = 0;
  do {
    const std::size_t size = std::min(mtu, write.size() - offset);
    const bool last = offset + size == write.size();
    headers.opcode = write_opcode(Service::kUnreliable, offset == 0, last, true);
    headers.pad = static_cast<std::uint8_t>(wire::padded(size) - size);
    packet(headers, offset, size);
    headers.psn = (headers.psn + 1) & kMask24;
    offset += size;
  } while (offset < write.size());
  psn = headers.psn;
}

// Bytes of such a packet, including its ICRC.
constexpr std::size_t packet_size(const Headers& headers, std::size_t payload) {
  return header_size(headers.opcode) + payload + headers.pad + kIcrcSize;
}

// Writes everything except the ICRC.
inline void write_packet(const Write& write, const Headers& headers, std::size_t offset, std::size_t size,
                         std::uint8_t* packet) {
  roce::write(headers, packet);
  std::uint8_t* to = packet + header_size(headers.opcode);
  const std::size_t from_head = offset < write.head.size() ? std::min(size, write.head.size() - offset) : 0;
  if (from_head > 0) std::memcpy(to, write.head.data() + offset, from_head);
  if (size > from_head) {
    std::memcpy(to + from_head, write.tail.data() + (offset + from_head - write.head.size()), size - from_head);
  }
  std::memset(to + size, 0, headers.pad);
}

}  // namespace jaxina::roce
