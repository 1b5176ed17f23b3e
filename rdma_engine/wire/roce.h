// RoCEv2 packets of unreliable (UC) and reliable (RC) connections: the bytes from the end of the UDP header to the end
// of the datagram, and how to write and parse them.
//
//   | BTH 12 | RETH 16 (writes: FIRST, ONLY) | ImmDt 4 (with immediate) | payload | pad 0 to 3 | ICRC 4 |
//   | BTH 12 | AETH 4 | ICRC 4 |   (ACKNOWLEDGE)
//
// All fields are big-endian except the ICRC, which roce_icrc.h computes. Names follow the InfiniBand Architecture
// Specification.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace jaxina::roce {

inline constexpr std::uint16_t kUdpPort = 4791;
inline constexpr std::uint16_t kDefaultPartition = 0xffff;
inline constexpr std::uint32_t kMask24 = 0xffffff;  // queue pair numbers and packet sequence numbers have 24 bits

// The service of a connection: bits 7 to 5 of its opcodes. The other bits are the operation.
enum class Service : std::uint8_t { kReliable = 0x00, kUnreliable = 0x20 };

enum class Opcode : std::uint8_t {
  kRcSendFirst = 0x00,
  kRcSendMiddle = 0x01,
  kRcSendLast = 0x02,
  kRcSendLastImm = 0x03,
  kRcSendOnly = 0x04,
  kRcSendOnlyImm = 0x05,
  kRcWriteFirst = 0x06,
  kRcWriteMiddle = 0x07,
  kRcWriteLast = 0x08,
  kRcWriteLastImm = 0x09,
  kRcWriteOnly = 0x0a,
  kRcWriteOnlyImm = 0x0b,
  kRcAcknowledge = 0x11,
  kWriteFirst = 0x26,
  kWriteMiddle = 0x27,
  kWriteLast = 0x28,
  kWriteLastImm = 0x29,
  kWriteOnly = 0x2a,
  kWriteOnlyImm = 0x2b,
};

// Of reliable connections: sends, writes and acknowledgements. Of unreliable ones: writes.
constexpr bool is_known(std::uint8_t opcode, Service service) {
  if (service == Service::kUnreliable) return opcode >= 0x26 && opcode <= 0x2b;
  return opcode <= 0x0b || opcode == 0x11;
}
constexpr std::uint8_t operation_of(Opcode o) { return static_cast<std::uint8_t>(o) & 0x1f; }
constexpr bool is_acknowledge(Opcode o) { return o == Opcode::kRcAcknowledge; }
constexpr bool is_write(Opcode o) { return operation_of(o) >= 0x06 && operation_of(o) <= 0x0b; }
// Sends and writes have the same six parts: FIRST, MIDDLE, LAST, LAST with immediate, ONLY, ONLY with immediate.
constexpr std::uint8_t part_of(Opcode o) { return operation_of(o) % 6; }
constexpr bool begins_message(Opcode o) { return !is_acknowledge(o) && (part_of(o) == 0 || part_of(o) >= 4); }
constexpr bool ends_message(Opcode o) { return !is_acknowledge(o) && part_of(o) >= 2; }
constexpr bool has_immediate(Opcode o) { return !is_acknowledge(o) && (part_of(o) == 3 || part_of(o) == 5); }
constexpr bool has_reth(Opcode o) { return is_write(o) && begins_message(o); }
// The opcode of a write's packet.
constexpr Opcode write_opcode(Service service, bool begins, bool ends, bool immediate) {
  const int part = begins ? (ends ? (immediate ? 5 : 4) : 0) : (ends ? (immediate ? 3 : 2) : 1);
  return static_cast<Opcode>(static_cast<int>(service) + 6 + part);
}
std::string_view to_string(Opcode opcode);

struct BthBytes {
  std::uint8_t opcode;
  std::uint8_t flags;  // solicited event 1, migration request 1, pad count 2, header version 4
  std::uint8_t partition[2];
  std::uint8_t congestion;  // FECN 1, BECN 1, reserved 6: switches may change these, so the ICRC does not cover them
  std::uint8_t qpn[3];
  std::uint8_t acknowledge;  // request 1, reserved 7
  std::uint8_t psn[3];
};
struct RethBytes {
  std::uint8_t address[8], rkey[4], length[4];
};
struct ImmediateBytes {
  std::uint8_t value[4];
};
struct AethBytes {
  std::uint8_t syndrome, msn[3];
};
static_assert(sizeof(BthBytes) == 12 && alignof(BthBytes) == 1);
static_assert(sizeof(RethBytes) == 16 && alignof(RethBytes) == 1);
static_assert(sizeof(ImmediateBytes) == 4 && alignof(ImmediateBytes) == 1);
static_assert(sizeof(AethBytes) == 4 && alignof(AethBytes) == 1);

inline constexpr std::size_t kIcrcSize = 4;
inline constexpr std::size_t kMaxHeaders = sizeof(BthBytes) + sizeof(RethBytes) + sizeof(ImmediateBytes);

constexpr std::size_t header_size(Opcode o) {
  return sizeof(BthBytes) + (has_reth(o) ? sizeof(RethBytes) : 0) + (has_immediate(o) ? sizeof(ImmediateBytes) : 0) +
         (is_acknowledge(o) ? sizeof(AethBytes) : 0);
}
static_assert(header_size(Opcode::kWriteFirst) == 28 && header_size(Opcode::kWriteMiddle) == 12 &&
              header_size(Opcode::kWriteLastImm) == 16 && header_size(Opcode::kWriteOnlyImm) == 32 &&
              header_size(Opcode::kRcWriteOnlyImm) == 32 && header_size(Opcode::kRcSendFirst) == 12 &&
              header_size(Opcode::kRcSendOnlyImm) == 16 && header_size(Opcode::kRcAcknowledge) == 16);
static_assert(write_opcode(Service::kUnreliable, true, false, true) == Opcode::kWriteFirst &&
              write_opcode(Service::kReliable, true, true, true) == Opcode::kRcWriteOnlyImm &&
              write_opcode(Service::kReliable, false, true, false) == Opcode::kRcWriteLast);

// The largest RDMA MTU whose packets fit into IPv4 packets of `ip_mtu` bytes; the smallest RDMA MTU if none fits.
constexpr std::size_t mtu_within(std::size_t ip_mtu) {
  std::size_t mtu = 4096;
  while (mtu > 256 && 20 + 8 + kMaxHeaders + mtu + kIcrcSize > ip_mtu) mtu /= 2;
  return mtu;
}

// The headers' fields in host byte order.
struct Headers {
  Opcode opcode = Opcode::kWriteOnlyImm;
  bool solicited = false;
  bool migration = false;  // the MigReq bit: Linux sends 1, and nobody reads it
  std::uint8_t pad = 0;    // bytes behind the payload
  std::uint16_t partition = kDefaultPartition;
  std::uint32_t qpn = 0;  // the receiver's queue pair, 24 bits
  bool acknowledge = false;
  std::uint32_t psn = 0;  // 24 bits
  // Only if the opcode begins a write:
  std::uint64_t address = 0;
  std::uint32_t rkey = 0;
  std::uint32_t length = 0;  // bytes of the whole message
  // Only if the opcode has an immediate:
  std::uint32_t immediate = 0;
  // Only in an acknowledgement: aeth.h
  std::uint8_t syndrome = 0;
  std::uint32_t msn = 0;  // 24 bits: how many messages the receiver has completed
  bool operator==(const Headers&) const = default;
};
std::string to_string(const Headers& headers);

// Writes header_size(headers.opcode) bytes.
void write(const Headers& headers, std::uint8_t* packet);

enum class ParseResult : std::uint8_t { kOk, kTruncated, kUnknownOpcode, kBadVersion };
std::string_view to_string(ParseResult result);

struct Packet {
  Headers headers;
  std::span<const std::uint8_t> payload;  // without the pad
  std::uint32_t icrc = 0;
};
// Splits a UDP payload into headers, payload and ICRC. Packets of another service are kUnknownOpcode. Does not check
// the ICRC. Never reads outside `datagram`.
ParseResult parse(std::span<const std::uint8_t> datagram, Packet& packet, Service service = Service::kUnreliable);

}  // namespace jaxina::roce
