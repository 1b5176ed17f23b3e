// Tests the wire format: what is written is read back, bytes stand where the layout says, and no damage goes unnoticed.
#include "rdma_engine/wire/packet.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace jaxina::wire {
namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes sealed(const Header& header, std::size_t size) {
  Bytes packet(size);
  for (std::size_t i = kHeaderSize; i < size; ++i) packet[i] = static_cast<std::uint8_t>(7 * i);
  seal(header, packet.data(), size);
  return packet;
}

Header update() {
  return {.kind = Kind::kUpdate,
          .job = 0x01020304,
          .secret = 0x05060708090a0b0c,
          .worker = 0x0d0e,
          .slot = 0x0f10,
          .epoch = 0x11121314,
          .fingerprint = 0x15161718,
          .words = 3,
          .exponents = 2,
          .code = 0x1a};
}

TEST(Packet, RoundTrip) {
  for (const Kind kind :
       {Kind::kUpdate, Kind::kResult, Kind::kPending, Kind::kRefused, Kind::kAbort, Kind::kCombined}) {
    Header header = update();
    header.kind = kind;
    const Bytes packet = sealed(header, packet_size(header.words, header.exponents));
    Header read;
    ASSERT_EQ(parse(packet, read), ParseResult::kOk);
    EXPECT_EQ(read.kind, kind);
    EXPECT_EQ(read.job, header.job);
    EXPECT_EQ(read.secret, header.secret);
    EXPECT_EQ(read.worker, header.worker);
    EXPECT_EQ(read.slot, header.slot);
    EXPECT_EQ(read.epoch, header.epoch);
    EXPECT_EQ(read.fingerprint, header.fingerprint);
    EXPECT_EQ(read.words, header.words);
    EXPECT_EQ(read.exponents, header.exponents);
    EXPECT_EQ(read.code, header.code);
  }
}

TEST(Packet, BytesStandWhereTheLayoutSays) {
  const Bytes packet = sealed(update(), packet_size(3, 2));
  const Bytes head = {'J', 'X', 1,  1,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12,
                      13,  14,  15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 0, 3,  2,  0x1a};
  ASSERT_EQ(packet.size(), 36u + 4u + 12u);
  EXPECT_EQ(Bytes(packet.begin(), packet.begin() + 32), head);
  EXPECT_EQ(exponents_of(packet.data()), packet.data() + 36);
  EXPECT_EQ(reinterpret_cast<const std::uint8_t*>(words_of(packet.data(), 2)), packet.data() + 40);
  EXPECT_EQ(packet[36], static_cast<std::uint8_t>(7 * 36));
  EXPECT_EQ(packet[38], 0) << "the exponents' padding is zero";
  EXPECT_EQ(packet[39], 0);
}

// Computes the CRC-32 of zlib and Ethernet, bit by bit.
std::uint32_t crc32(const Bytes& bytes) {
  std::uint32_t crc = 0xffffffff;
  for (const std::uint8_t byte : bytes) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return ~crc;
}

TEST(Packet, ChecksumIsCrc32OfEverythingElse) {
  const Bytes packet = sealed(update(), packet_size(3, 2));
  Bytes covered(packet.begin(), packet.begin() + 32);
  covered.insert(covered.end(), packet.begin() + 36, packet.end());
  const std::uint32_t crc = crc32(covered);
  const Bytes expected = {static_cast<std::uint8_t>(crc >> 24), static_cast<std::uint8_t>(crc >> 16),
                          static_cast<std::uint8_t>(crc >> 8), static_cast<std::uint8_t>(crc)};
  EXPECT_EQ(Bytes(packet.begin() + 32, packet.begin() + 36), expected);
}

TEST(Packet, AMissingChecksumIsAcceptedIfItIsOptional) {
  Bytes packet = sealed(update(), packet_size(3, 2));
  std::memset(&packet[32], 0, 4);
  Header read;
  EXPECT_EQ(parse(packet, read), ParseResult::kCorrupt);
  EXPECT_EQ(parse(packet, read, Checksum::kOptional), ParseResult::kOk);
  packet[32] = 1;
  EXPECT_EQ(parse(packet, read, Checksum::kOptional), ParseResult::kCorrupt);
  EXPECT_EQ(parse({packet.data(), packet.size() - 1}, read, Checksum::kOptional), ParseResult::kBadLength);
}

TEST(Packet, AMissingChecksumIsAcceptedInASum) {
  Header header = update();
  for (const Kind kind : {Kind::kUpdate, Kind::kResult, Kind::kRefused, Kind::kCombined}) {
    header.kind = kind;
    Bytes packet = sealed(header, packet_size(3, 2));
    Header read;
    EXPECT_EQ(parse(packet, read, Checksum::kOptionalInSums), ParseResult::kOk);
    std::memset(&packet[32], 0, 4);
    const ParseResult expected = kind == Kind::kCombined ? ParseResult::kOk : ParseResult::kCorrupt;
    EXPECT_EQ(parse(packet, read, Checksum::kOptionalInSums), expected) << to_string(kind);
    packet[32] = 1;
    EXPECT_EQ(parse(packet, read, Checksum::kOptionalInSums), ParseResult::kCorrupt);
  }
}

TEST(Packet, EveryTruncationIsDetected) {
  for (const Kind kind :
       {Kind::kUpdate, Kind::kResult, Kind::kPending, Kind::kRefused, Kind::kAbort, Kind::kCombined}) {
    Header header = update();
    header.kind = kind;
    const Bytes packet = sealed(header, packet_size(header.words, header.exponents));
    for (std::size_t size = 0; size < packet.size(); ++size) {
      // The buffer has exactly this size, so that a sanitizer notices every read beyond it.
      const Bytes cut(packet.begin(), packet.begin() + static_cast<std::ptrdiff_t>(size));
      Header read;
      const ParseResult result = parse(cut, read);
      EXPECT_NE(result, ParseResult::kOk) << to_string(kind) << " cut to " << size;
      EXPECT_EQ(result == ParseResult::kTruncated, size < kHeaderSize);
    }
  }
}

TEST(Packet, EveryLongerPacketIsDetected) {
  Bytes packet = sealed(update(), packet_size(3, 2));
  for (int extra = 0; extra < 64; ++extra) {
    packet.push_back(0);
    Header read;
    EXPECT_EQ(parse(packet, read), ParseResult::kBadLength);
  }
}

TEST(Packet, EverySingleAndDoubleBitFlipIsDetected) {
  Bytes packet = sealed(update(), packet_size(3, 2));
  const auto flip = [&](std::size_t bit) { packet[bit / 8] ^= static_cast<std::uint8_t>(1u << (bit % 8)); };
  Header read;
  for (std::size_t a = 0; a < 8 * packet.size(); ++a) {
    flip(a);
    ASSERT_NE(parse(packet, read), ParseResult::kOk) << "bit " << a;
    for (std::size_t b = a + 1; b < 8 * packet.size(); ++b) {
      flip(b);
      ASSERT_NE(parse(packet, read), ParseResult::kOk) << "bits " << a << ", " << b;
      flip(b);
    }
    flip(a);
  }
  EXPECT_EQ(parse(packet, read), ParseResult::kOk);
}

TEST(Packet, ForeignPacketsAreDistinguishedFromDamagedOnes) {
  const Bytes packet = sealed(update(), packet_size(3, 2));
  Header read;
  for (const std::size_t byte : {0u, 1u, 2u}) {  // magic and version
    Bytes foreign = packet;
    foreign[byte] ^= 0xff;
    EXPECT_EQ(parse(foreign, read), ParseResult::kForeign);
  }
  for (const int kind : {0, 7, 255}) {
    Bytes foreign = packet;
    foreign[3] = static_cast<std::uint8_t>(kind);
    EXPECT_EQ(parse(foreign, read), ParseResult::kForeign);
  }
  Bytes damaged = packet;
  damaged.back() ^= 1;
  EXPECT_EQ(parse(damaged, read), ParseResult::kCorrupt);
}

TEST(Packet, LargestChunkFits) {
  Header header = update();
  header.exponents = kMaxBlocksPerChunk;
  header.words = static_cast<std::uint16_t>((kMaxPacketSize - kHeaderSize - kMaxBlocksPerChunk) / 4);
  const std::size_t size = packet_size(header.words, header.exponents);
  ASSERT_LE(size, kMaxPacketSize);
  Header read;
  EXPECT_EQ(parse(sealed(header, size), read), ParseResult::kOk);
}

}  // namespace
}  // namespace jaxina::wire
