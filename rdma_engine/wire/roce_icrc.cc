#include "rdma_engine/wire/roce_icrc.h"

#include <libdeflate.h>

#include <algorithm>
#include <cstring>

#include "rdma_engine/base/assert.h"
#include "rdma_engine/wire/roce.h"

namespace jaxina::roce {
namespace {

constexpr std::size_t kLinkHeader = 8, kIpHeader = 20, kUdpHeader = 8;
constexpr std::size_t kPseudoHeader = kLinkHeader + kIpHeader + kUdpHeader;
constexpr std::size_t kIdentificationOffset = kLinkHeader + 4;
constexpr std::size_t kCongestionOffset = 4;  // in the BTH
constexpr std::uint8_t kDontFragment = 0x40;
constexpr std::uint8_t kUdpProtocol = 17;

// The bytes that the ICRC covers in front of the BTH (InfiniBand Architecture Specification, annex A17). Fields that
// change on the way count as ones: TOS, TTL and both checksums. So do the eight bytes in place of a link header.
std::array<std::uint8_t, kPseudoHeader> pseudo_header(const Flow& flow, const Identification& identification,
                                                      std::size_t covered) {
  std::array<std::uint8_t, kPseudoHeader> bytes;
  bytes.fill(0xff);
  std::uint8_t* ip = &bytes[kLinkHeader];
  const auto put16 = [](std::uint8_t* at, std::size_t value) {
    at[0] = static_cast<std::uint8_t>(value >> 8);
    at[1] = static_cast<std::uint8_t>(value);
  };
  ip[0] = 0x45;
  put16(ip + 2, kIpHeader + kUdpHeader + covered + kIcrcSize);
  put16(ip + 4, identification.id);
  ip[6] = identification.dont_fragment ? kDontFragment : 0;
  ip[7] = 0;
  ip[9] = kUdpProtocol;
  std::copy(flow.source.begin(), flow.source.end(), ip + 12);
  std::copy(flow.destination.begin(), flow.destination.end(), ip + 16);
  std::uint8_t* udp = ip + kIpHeader;
  put16(udp, flow.source_port);
  put16(udp + 2, flow.destination_port);
  put16(udp + 4, kUdpHeader + covered + kIcrcSize);
  return bytes;
}

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value & 1) ? value >> 1 ^ 0xedb88320u : value >> 1;
    table[i] = value;
  }
  return table;
}

// Undoes one step of the CRC register over a zero byte. This works because all entries of the table have different high
// bytes.
class BackwardStep {
 public:
  BackwardStep() {
    for (std::size_t i = 0; i < 256; ++i) index_[table_[i] >> 24] = static_cast<std::uint8_t>(i);
  }
  std::uint32_t operator()(std::uint32_t value) const {
    const std::uint8_t index = index_[value >> 24];
    return (value ^ table_[index]) << 8 | index;
  }

 private:
  static constexpr std::array<std::uint32_t, 256> table_ = make_table();
  std::array<std::uint8_t, 256> index_{};
};

std::uint32_t image(const std::array<std::uint32_t, 32>& matrix, std::uint32_t value) {
  std::uint32_t result = 0;
  for (; value != 0; value &= value - 1) result ^= matrix[static_cast<std::size_t>(__builtin_ctz(value))];
  return result;
}

// Matrices that undo 1, 2, 4, ... steps. Any number of steps is a product of some of them.
class PowersOfTwo {
 public:
  PowersOfTwo() {
    const BackwardStep back;
    for (std::size_t bit = 0; bit < 32; ++bit) matrices_[0][bit] = back(std::uint32_t{1} << bit);
    for (std::size_t i = 1; i < matrices_.size(); ++i) {
      for (std::size_t bit = 0; bit < 32; ++bit) matrices_[i][bit] = image(matrices_[i - 1], matrices_[i - 1][bit]);
    }
  }
  std::uint32_t unwind(std::uint32_t value, std::size_t bytes) const {
    for (std::size_t i = 0; i < matrices_.size(); ++i) {
      if (bytes >> i & 1) value = image(matrices_[i], value);
    }
    return value;
  }

 private:
  std::array<std::array<std::uint32_t, 32>, 17> matrices_;  // datagrams are shorter than 2^17 bytes
};

}  // namespace

std::uint32_t icrc(const Flow& flow, const Identification& identification, std::span<const std::uint8_t> covered) {
  JAXINA_ASSERT(covered.size() >= sizeof(BthBytes));
  // The header up to the end of the BTH goes through the CRC in one piece: the fixed cost of a CRC call is that of
  // about a hundred bytes.
  std::array<std::uint8_t, kPseudoHeader + sizeof(BthBytes)> head;
  const auto pseudo = pseudo_header(flow, identification, covered.size());
  std::copy(pseudo.begin(), pseudo.end(), head.begin());
  std::copy_n(covered.begin(), sizeof(BthBytes), &head[kPseudoHeader]);
  head[kPseudoHeader + kCongestionOffset] = 0xff;
  const std::uint32_t crc = libdeflate_crc32(0, head.data(), head.size());
  return libdeflate_crc32(crc, covered.data() + sizeof(BthBytes), covered.size() - sizeof(BthBytes));
}

void store_icrc(std::uint32_t value, std::uint8_t* out) {
  for (int i = 0; i < 4; ++i) out[i] = static_cast<std::uint8_t>(value >> (8 * i));
}

std::uint32_t BlindIcrcCheck::unwind(std::uint32_t difference, std::size_t bytes) {
  for (const Known& known : known_) {
    if (known.bytes == bytes) return image(known.unwinding, difference);
  }
  static const PowersOfTwo powers;
  if (bytes == unknown_bytes_) {  // the same unknown length twice in a row is worth caching
    Known& known = known_[next_known_++ % kKnown];
    known.bytes = bytes;
    for (std::size_t bit = 0; bit < 32; ++bit) known.unwinding[bit] = powers.unwind(std::uint32_t{1} << bit, bytes);
  }
  unknown_bytes_ = bytes;
  return powers.unwind(difference, bytes);
}

std::optional<Identification> BlindIcrcCheck::explain(const Flow& flow, std::span<const std::uint8_t> covered,
                                                      std::uint32_t received) {
  // Computed with id 0 and no flags, these four bytes are zero. So the difference to the received ICRC comes from their
  // real values.
  const std::uint32_t difference = received ^ icrc(flow, {.id = 0, .dont_fragment = false}, covered);
  const std::uint32_t bytes = unwind(difference, kPseudoHeader - kIdentificationOffset + covered.size());
  // The register takes its low byte first: the id, then flags and fragment offset.
  const std::uint32_t flags = bytes >> 16;
  if (flags != 0 && flags != kDontFragment) return std::nullopt;
  return Identification{static_cast<std::uint16_t>((bytes & 0xff) << 8 | (bytes >> 8 & 0xff)), flags == kDontFragment};
}

}  // namespace jaxina::roce
