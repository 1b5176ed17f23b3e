#include "rdma_engine/wire/roce.h"

#include <cstdio>
#include <cstring>

namespace jaxina::roce {
namespace {

constexpr std::uint8_t kSolicited = 0x80, kMigration = 0x40, kVersionBits = 0x0f, kAcknowledge = 0x80;

template <std::size_t N>
void put(std::uint8_t (&field)[N], std::uint64_t value) {
  for (std::size_t i = 0; i < N; ++i) field[i] = static_cast<std::uint8_t>(value >> (8 * (N - 1 - i)));
}

template <std::size_t N>
std::uint64_t get(const std::uint8_t (&field)[N]) {
  std::uint64_t value = 0;
  for (const std::uint8_t byte : field) value = value << 8 | byte;
  return value;
}

}  // namespace

std::string_view to_string(Opcode opcode) {
  switch (opcode) {
    case Opcode::kRcSendFirst: return "rc_send_first";
    case Opcode::kRcSendMiddle: return "rc_send_middle";
    case Opcode::kRcSendLast: return "rc_send_last";
    case Opcode::kRcSendLastImm: return "rc_send_last_imm";
    case Opcode::kRcSendOnly: return "rc_send_only";
    case Opcode::kRcSendOnlyImm: return "rc_send_only_imm";
    case Opcode::kRcWriteFirst: return "rc_write_first";
    case Opcode::kRcWriteMiddle: return "rc_write_middle";
    case Opcode::kRcWriteLast: return "rc_write_last";
    case Opcode::kRcWriteLastImm: return "rc_write_last_imm";
    case Opcode::kRcWriteOnly: return "rc_write_only";
    case Opcode::kRcWriteOnlyImm: return "rc_write_only_imm";
    case Opcode::kRcAcknowledge: return "rc_acknowledge";
    case Opcode::kWriteFirst: return "write_first";
    case Opcode::kWriteMiddle: return "write_middle";
    case Opcode::kWriteLast: return "write_last";
    case Opcode::kWriteLastImm: return "write_last_imm";
    case Opcode::kWriteOnly: return "write_only";
    case Opcode::kWriteOnlyImm: return "write_only_imm";
  }
  return "unknown";
}

std::string_view to_string(ParseResult result) {
  switch (result) {
    case ParseResult::kOk: return "ok";
    case ParseResult::kTruncated: return "truncated";
    case ParseResult::kUnknownOpcode: return "unknown_opcode";
    case ParseResult::kBadVersion: return "bad_version";
  }
  return "unknown";
}

std::string to_string(const Headers& h) {
  char text[160];
  const std::string_view opcode = to_string(h.opcode);
  int size = std::snprintf(text, sizeof(text), "%.*s qpn %#x psn %u", static_cast<int>(opcode.size()), opcode.data(),
                           h.qpn, h.psn);
  if (has_reth(h.opcode)) {
    size +=
        std::snprintf(text + size, sizeof(text) - static_cast<std::size_t>(size), " address %#llx rkey %#x length %u",
                      static_cast<unsigned long long>(h.address), h.rkey, h.length);
  }
  if (has_immediate(h.opcode)) {
    std::snprintf(text + size, sizeof(text) - static_cast<std::size_t>(size), " immediate %#x", h.immediate);
  }
  if (is_acknowledge(h.opcode)) {
    std::snprintf(text + size, sizeof(text) - static_cast<std::size_t>(size), " syndrome %#x msn %u", h.syndrome,
                  h.msn);
  }
  return text;
}

void write(const Headers& h, std::uint8_t* packet) {
  BthBytes bth;
  bth.opcode = static_cast<std::uint8_t>(h.opcode);
  bth.flags = static_cast<std::uint8_t>((h.solicited ? kSolicited : 0) | (h.migration ? kMigration : 0) | h.pad << 4);
  put(bth.partition, h.partition);
  bth.congestion = 0;
  put(bth.qpn, h.qpn);
  bth.acknowledge = h.acknowledge ? kAcknowledge : 0;
  put(bth.psn, h.psn);
  std::memcpy(packet, &bth, sizeof(bth));
  packet += sizeof(bth);
  if (has_reth(h.opcode)) {
    RethBytes reth;
    put(reth.address, h.address);
    put(reth.rkey, h.rkey);
    put(reth.length, h.length);
    std::memcpy(packet, &reth, sizeof(reth));
    packet += sizeof(reth);
  }
  if (has_immediate(h.opcode)) {
    ImmediateBytes immediate;
    put(immediate.value, h.immediate);
    std::memcpy(packet, &immediate, sizeof(immediate));
  }
  if (is_acknowledge(h.opcode)) {
    AethBytes aeth;
    aeth.syndrome = h.syndrome;
    put(aeth.msn, h.msn);
    std::memcpy(packet, &aeth, sizeof(aeth));
  }
}

ParseResult parse(std::span<const std::uint8_t> datagram, Packet& packet, Service service) {
  if (datagram.size() < sizeof(BthBytes) + kIcrcSize) return ParseResult::kTruncated;
  BthBytes bth;
  std::memcpy(&bth, datagram.data(), sizeof(bth));
  if (!is_known(bth.opcode, service)) return ParseResult::kUnknownOpcode;
  if ((bth.flags & kVersionBits) != 0) return ParseResult::kBadVersion;
  Headers& h = packet.headers;
  h = {};
  h.opcode = static_cast<Opcode>(bth.opcode);
  h.solicited = (bth.flags & kSolicited) != 0;
  h.migration = (bth.flags & kMigration) != 0;
  h.pad = bth.flags >> 4 & 3;
  h.partition = static_cast<std::uint16_t>(get(bth.partition));
  h.qpn = static_cast<std::uint32_t>(get(bth.qpn));
  h.acknowledge = (bth.acknowledge & kAcknowledge) != 0;
  h.psn = static_cast<std::uint32_t>(get(bth.psn));
  const std::size_t headers = header_size(h.opcode);
  if (datagram.size() < headers + h.pad + kIcrcSize) return ParseResult::kTruncated;
  const std::uint8_t* next = datagram.data() + sizeof(bth);
  if (has_reth(h.opcode)) {
    RethBytes reth;
    std::memcpy(&reth, next, sizeof(reth));
    next += sizeof(reth);
    h.address = get(reth.address);
    h.rkey = static_cast<std::uint32_t>(get(reth.rkey));
    h.length = static_cast<std::uint32_t>(get(reth.length));
  }
  if (has_immediate(h.opcode)) {
    ImmediateBytes immediate;
    std::memcpy(&immediate, next, sizeof(immediate));
    h.immediate = static_cast<std::uint32_t>(get(immediate.value));
  }
  if (is_acknowledge(h.opcode)) {
    AethBytes aeth;
    std::memcpy(&aeth, next, sizeof(aeth));
    h.syndrome = aeth.syndrome;
    h.msn = static_cast<std::uint32_t>(get(aeth.msn));
  }
  packet.payload = datagram.subspan(headers, datagram.size() - headers - h.pad - kIcrcSize);
  const std::uint8_t* icrc = datagram.data() + datagram.size() - kIcrcSize;
  packet.icrc = icrc[0] | icrc[1] << 8 | icrc[2] << 16 | static_cast<std::uint32_t>(icrc[3]) << 24;
  return ParseResult::kOk;
}

}  // namespace jaxina::roce
