// RoceFrame: a RoCEv2 packet of a reliable connection inside an Ethernet frame. What stands between two hosts sees
// whole frames, with the IP identification, so it checks all 32 bits of the ICRC.
//
//   | Ethernet 14 | IPv4 20 | UDP 8 | what wire/roce.h describes | perhaps padding of the Ethernet frame |
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "rdma_engine/wire/roce.h"
#include "rdma_engine/wire/roce_icrc.h"

namespace jaxina::roce {

inline constexpr std::size_t kEthernetSize = 14, kIpSize = 20, kUdpSize = 8;
inline constexpr std::size_t kBthAt = kEthernetSize + kIpSize + kUdpSize;
inline constexpr std::size_t kMaxFrameHeaders = kBthAt + kMaxHeaders;

struct RoceFrame {
  Flow flow;
  Identification identification;
  Packet packet;                          // its payload points into the frame
  std::span<const std::uint8_t> headers;  // from the frame's first byte to the payload
  std::span<const std::uint8_t> covered;  // what the ICRC covers, from the BTH on

  bool is_intact() const { return icrc(flow, identification, covered) == packet.icrc; }
};

// Takes a frame apart. Nothing if it is anything but an unfragmented IPv4 packet without options that has a UDP
// datagram with what may be a packet of a reliable connection. Checks neither its port, which is 4791 for NICs, nor the
// ICRC.
std::optional<RoceFrame> read_frame(std::span<const std::uint8_t> frame);

// Completes a frame whose headers and payload are there: sets the lengths and the checksum of the IP header, leaves out
// the UDP checksum (zero: none), and writes the ICRC behind the payload. `size` is without the ICRC. Returns the
// frame's size. The frame's memory has room for the ICRC.
std::size_t finish_frame(std::uint8_t* frame, std::size_t size);

// Writes the Ethernet, IPv4 and UDP headers of a frame between two hosts, as a NIC would: with DF, and with an
// identification. finish_frame() sets the lengths. `frame` has room for kBthAt bytes.
void write_frame_headers(const Flow& flow, std::uint16_t id, std::uint8_t* frame);

}  // namespace jaxina::roce
