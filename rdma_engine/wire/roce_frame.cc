#include "rdma_engine/wire/roce_frame.h"

#include <algorithm>
#include <cstring>

#include "rdma_engine/base/narrow.h"

namespace jaxina::roce {
namespace {

constexpr std::size_t kIpAt = kEthernetSize, kUdpAt = kIpAt + kIpSize;
constexpr std::uint8_t kVersionAndLength = 0x45;  // IPv4, no options
constexpr std::uint8_t kUdpProtocol = 17, kTimeToLive = 64;
constexpr std::uint16_t kIpv4 = 0x0800;
constexpr std::uint16_t kDontFragment = 0x4000, kReservedFlag = 0x8000;

std::uint16_t get16(const std::uint8_t* at) { return static_cast<std::uint16_t>(at[0] << 8 | at[1]); }
void put16(std::uint8_t* at, std::size_t value) {
  at[0] = static_cast<std::uint8_t>(value >> 8);
  at[1] = static_cast<std::uint8_t>(value);
}

Flow flow_of(const std::uint8_t* frame) {
  Flow flow;
  std::copy_n(frame + kIpAt + 12, 4, flow.source.begin());
  std::copy_n(frame + kIpAt + 16, 4, flow.destination.begin());
  flow.source_port = get16(frame + kUdpAt);
  flow.destination_port = get16(frame + kUdpAt + 2);
  return flow;
}

// The checksum of the IP header (RFC 791), as if its field were zero.
std::uint16_t ip_checksum(const std::uint8_t* ip) {
  std::uint32_t sum = 0;
  for (std::size_t at = 0; at < kIpSize; at += 2) sum += at == 10 ? 0 : get16(ip + at);
  while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(~sum);
}

}  // namespace

std::optional<RoceFrame> read_frame(std::span<const std::uint8_t> frame) {
  if (frame.size() < kBthAt) return std::nullopt;
  const std::uint8_t *ip = &frame[kIpAt], *udp = &frame[kUdpAt];
  if (get16(&frame[12]) != kIpv4 || ip[0] != kVersionAndLength || ip[9] != kUdpProtocol) return std::nullopt;
  const std::uint16_t fragment = get16(ip + 6);
  if ((fragment & ~kDontFragment) != 0 || (fragment & kReservedFlag) != 0) return std::nullopt;
  const std::size_t ip_size = get16(ip + 2), udp_size = get16(udp + 4);
  if (ip_size > frame.size() - kIpAt || ip_size < kIpSize + kUdpSize || udp_size != ip_size - kIpSize) {
    return std::nullopt;
  }
  RoceFrame read;
  read.flow = flow_of(frame.data());
  read.identification = {get16(ip + 4), (fragment & kDontFragment) != 0};
  const auto datagram = frame.subspan(kBthAt, udp_size - kUdpSize);
  if (parse(datagram, read.packet, Service::kReliable) != ParseResult::kOk) return std::nullopt;
  read.headers = frame.first(kBthAt + header_size(read.packet.headers.opcode));
  read.covered = datagram.first(datagram.size() - kIcrcSize);
  return read;
}

std::size_t finish_frame(std::uint8_t* frame, std::size_t size) {
  std::uint8_t *ip = frame + kIpAt, *udp = frame + kUdpAt;
  const std::size_t ip_size = size + kIcrcSize - kIpAt;
  put16(ip + 2, narrow<std::uint16_t>(ip_size));
  put16(ip + 10, ip_checksum(ip));
  put16(udp + 4, ip_size - kIpSize);
  put16(udp + 6, 0);
  const std::uint16_t fragment = get16(ip + 6);
  const Identification identification{get16(ip + 4), (fragment & kDontFragment) != 0};
  store_icrc(icrc(flow_of(frame), identification, {frame + kBthAt, size - kBthAt}), frame + size);
  return size + kIcrcSize;
}

void write_frame_headers(const Flow& flow, std::uint16_t id, std::uint8_t* frame) {
  std::memset(frame, 0, kBthAt);
  // A locally administered address that follows from the IP address, so that nobody has to ask for it.
  const auto put_mac = [](const std::array<std::uint8_t, 4>& address, std::uint8_t* to) {
    to[0] = 0x02;
    std::copy(address.begin(), address.end(), to + 2);
  };
  put_mac(flow.destination, frame);
  put_mac(flow.source, frame + 6);
  put16(frame + 12, kIpv4);
  std::uint8_t *ip = frame + kIpAt, *udp = frame + kUdpAt;
  ip[0] = kVersionAndLength;
  put16(ip + 4, id);
  put16(ip + 6, kDontFragment);
  ip[8] = kTimeToLive;
  ip[9] = kUdpProtocol;
  std::copy(flow.source.begin(), flow.source.end(), ip + 12);
  std::copy(flow.destination.begin(), flow.destination.end(), ip + 16);
  put16(udp, flow.source_port);
  put16(udp + 2, flow.destination_port);
}

}  // namespace jaxina::roce
