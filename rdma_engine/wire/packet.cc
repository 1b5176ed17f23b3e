#include "rdma_engine/wire/packet.h"

#include <libdeflate.h>

#include <bit>
#include <cstring>

#include "rdma_engine/base/assert.h"

namespace jaxina::wire {
namespace {

// Converts to and from network byte order. It swaps whole integers rather than single bytes: seal() copies the header
// with a vector load, and such a load stalls on preceding byte stores until all of them are in the cache.
template <typename T>
T big_endian(T value) {
  if constexpr (std::endian::native == std::endian::big) return value;
  if constexpr (sizeof(T) == 2) return __builtin_bswap16(value);
  else if constexpr (sizeof(T) == 4) return __builtin_bswap32(value);
  else return __builtin_bswap64(value);
}

template <typename T, std::size_t N>
void put(std::uint8_t (&field)[N], T value) {
  static_assert(sizeof(T) == N);
  value = big_endian(value);
  std::memcpy(field, &value, N);
}

template <typename T, std::size_t N>
T get(const std::uint8_t (&field)[N]) {
  static_assert(sizeof(T) == N);
  T value;
  std::memcpy(&value, field, N);
  return big_endian(value);
}

constexpr unsigned kFormatShift = 14;
static_assert(kMaxWords == (1u << kFormatShift) - 1);

constexpr std::size_t kCrcOffset = offsetof(HeaderBytes, crc);

// The CRC covers everything but itself.
std::uint32_t checksum(const std::uint8_t* packet, std::size_t size) {
  const std::uint32_t head = libdeflate_crc32(0, packet, kCrcOffset);
  return libdeflate_crc32(head, packet + kHeaderSize, size - kHeaderSize);
}

bool has_sized_payload(Kind kind) {
  return kind == Kind::kUpdate || kind == Kind::kCombined || kind == Kind::kResult || kind == Kind::kRefused;
}

}  // namespace

std::string_view to_string(Kind kind) {
  switch (kind) {
    case Kind::kUpdate: return "update";
    case Kind::kResult: return "result";
    case Kind::kPending: return "pending";
    case Kind::kRefused: return "refused";
    case Kind::kAbort: return "abort";
    case Kind::kCombined: return "combined";
  }
  return "unknown";
}

std::string_view to_string(ParseResult result) {
  switch (result) {
    case ParseResult::kOk: return "ok";
    case ParseResult::kTruncated: return "truncated";
    case ParseResult::kForeign: return "foreign";
    case ParseResult::kBadLength: return "bad_length";
    case ParseResult::kCorrupt: return "corrupt";
  }
  return "unknown";
}

void seal(const Header& header, std::uint8_t* packet, std::size_t size, bool with_crc) {
  HeaderBytes bytes;
  put(bytes.magic, kMagic);
  bytes.version = kVersion;
  bytes.kind = static_cast<std::uint8_t>(header.kind);
  put(bytes.job, header.job);
  put(bytes.secret, header.secret);
  put(bytes.worker, header.worker);
  put(bytes.slot, header.slot);
  put(bytes.epoch, header.epoch);
  put(bytes.fingerprint, header.fingerprint);
  JAXINA_ASSERT(header.words <= kMaxWords);
  put(bytes.words, static_cast<std::uint16_t>(static_cast<unsigned>(header.format) << kFormatShift | header.words));
  bytes.exponents = header.exponents;
  bytes.code = header.code;
  std::memcpy(packet, &bytes, kCrcOffset);
  const std::size_t padding = padded(header.exponents) - header.exponents;
  if (padding > 0 && has_sized_payload(header.kind)) std::memset(packet + kHeaderSize + header.exponents, 0, padding);
  put(bytes.crc, with_crc ? checksum(packet, size) : std::uint32_t{0});
  std::memcpy(packet + kCrcOffset, bytes.crc, sizeof(bytes.crc));
}

std::optional<std::uint32_t> job_of(std::span<const std::uint8_t> packet) {
  if (packet.size() < kHeaderSize) return std::nullopt;
  HeaderBytes bytes;
  std::memcpy(&bytes, packet.data(), kHeaderSize);
  return get<std::uint32_t>(bytes.job);
}

ParseResult parse(std::span<const std::uint8_t> packet, Header& header, Checksum required) {
  if (packet.size() < kHeaderSize) return ParseResult::kTruncated;
  HeaderBytes bytes;
  std::memcpy(&bytes, packet.data(), kHeaderSize);
  if (get<std::uint16_t>(bytes.magic) != kMagic || bytes.version != kVersion) return ParseResult::kForeign;
  if (bytes.kind < static_cast<std::uint8_t>(Kind::kUpdate) ||
      bytes.kind > static_cast<std::uint8_t>(Kind::kCombined)) {
    return ParseResult::kForeign;
  }
  header.kind = static_cast<Kind>(bytes.kind);
  header.job = get<std::uint32_t>(bytes.job);
  header.secret = get<std::uint64_t>(bytes.secret);
  header.worker = get<std::uint16_t>(bytes.worker);
  header.slot = get<std::uint16_t>(bytes.slot);
  header.epoch = get<std::uint32_t>(bytes.epoch);
  header.fingerprint = get<std::uint32_t>(bytes.fingerprint);
  const auto words = get<std::uint16_t>(bytes.words);
  header.words = words & kMaxWords;
  header.format = static_cast<Format>(words >> kFormatShift);
  header.exponents = bytes.exponents;
  header.code = bytes.code;
  if (has_sized_payload(header.kind) && packet.size() != packet_size(header.words, header.exponents)) {
    return ParseResult::kBadLength;
  }
  const auto crc = get<std::uint32_t>(bytes.crc);
  const bool optional =
      required == Checksum::kOptional || (required == Checksum::kOptionalInSums && header.kind == Kind::kCombined);
  if (crc == 0 && optional) return ParseResult::kOk;
  if (crc != checksum(packet.data(), packet.size())) return ParseResult::kCorrupt;
  return ParseResult::kOk;
}

}  // namespace jaxina::wire
