// Tests RoCEv2 on the wire, with frames that Linux's Soft-RoCE has made (roce_frames.txt).
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "rdma_engine/wire/roce.h"
#include "rdma_engine/wire/roce_icrc.h"
#include "tests/native/allocations.h"

namespace jaxina::roce {
namespace {

using Bytes = std::vector<std::uint8_t>;

struct Frame {
  Flow flow;
  Identification identification;
  Bytes datagram;  // UDP payload
  std::span<const std::uint8_t> covered() const { return std::span(datagram).first(datagram.size() - kIcrcSize); }
};

std::vector<Frame> captured() {
  std::ifstream file(JAXINA_ROCE_FRAMES);
  std::vector<Frame> frames;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    Bytes bytes;
    for (std::size_t i = 0; i + 1 < line.size(); i += 2) {
      bytes.push_back(static_cast<std::uint8_t>(std::stoi(line.substr(i, 2), nullptr, 16)));
    }
    Frame frame;
    std::copy_n(&bytes[12], 4, frame.flow.source.begin());
    std::copy_n(&bytes[16], 4, frame.flow.destination.begin());
    frame.flow.source_port = static_cast<std::uint16_t>(bytes[20] << 8 | bytes[21]);
    frame.flow.destination_port = static_cast<std::uint16_t>(bytes[22] << 8 | bytes[23]);
    frame.identification = {static_cast<std::uint16_t>(bytes[4] << 8 | bytes[5]), bytes[6] == 0x40};
    frame.datagram.assign(bytes.begin() + 28, bytes.end());
    frames.push_back(frame);
  }
  return frames;
}

TEST(RoceWire, CapturedFramesAreParsed) {
  const std::vector<Frame> frames = captured();
  ASSERT_EQ(frames.size(), 12u);
  struct Expected {
    Opcode opcode;
    std::uint32_t psn;
    std::size_t payload;
    std::uint8_t pad;
    std::uint32_t message;
  };
  const Expected expected[] = {
      {Opcode::kWriteOnlyImm, 0xfffffe, 0, 0, 0}, {Opcode::kWriteOnlyImm, 0xffffff, 1, 3, 1},
      {Opcode::kWriteOnlyImm, 0, 16, 0, 16},      {Opcode::kWriteOnlyImm, 1, 1022, 2, 1022},
      {Opcode::kWriteOnlyImm, 2, 1024, 0, 1024},  {Opcode::kWriteFirst, 3, 1024, 0, 2064},
      {Opcode::kWriteMiddle, 4, 1024, 0, 2064},   {Opcode::kWriteLastImm, 5, 16, 0, 2064},
      {Opcode::kWriteFirst, 6, 1024, 0, 3077},    {Opcode::kWriteMiddle, 7, 1024, 0, 3077},
      {Opcode::kWriteMiddle, 8, 1024, 0, 3077},   {Opcode::kWriteLastImm, 9, 5, 3, 3077},
  };
  for (std::size_t i = 0; i < frames.size(); ++i) {
    Packet packet;
    ASSERT_EQ(parse(frames[i].datagram, packet), ParseResult::kOk);
    const Headers& h = packet.headers;
    EXPECT_EQ(h.opcode, expected[i].opcode) << i;
    EXPECT_EQ(h.psn, expected[i].psn) << i;
    EXPECT_EQ(h.pad, expected[i].pad) << i;
    EXPECT_EQ(h.qpn, 0xabcde0u);
    EXPECT_EQ(packet.payload.size(), expected[i].payload) << i;
    if (begins_message(h.opcode)) {
      EXPECT_EQ(h.address, 0x1122334455660000 + expected[i].message);
      EXPECT_EQ(h.rkey, 0x01234567u);
      EXPECT_EQ(h.length, expected[i].message);
    }
    if (has_immediate(h.opcode)) {
      EXPECT_EQ(h.immediate, 0xcafe0000 + expected[i].message);
    }
    const std::size_t offset = h.opcode == Opcode::kWriteMiddle || h.opcode == Opcode::kWriteLastImm
                                   ? 1024 * (h.psn - (expected[i].message == 2064 ? 3 : 6))
                                   : 0;
    for (std::size_t byte = 0; byte < packet.payload.size(); ++byte) {
      ASSERT_EQ(packet.payload[byte], static_cast<std::uint8_t>((offset + byte) * 7)) << i << " byte " << byte;
    }
  }
}

TEST(RoceWire, TheMtuIsTheLargestWhosePacketsFit) {
  for (const auto& [ip_mtu, mtu] : std::vector<std::pair<std::size_t, std::size_t>>{{65536, 4096},
                                                                                    {9000, 4096},
                                                                                    {4160, 4096},
                                                                                    {4159, 2048},
                                                                                    {1500, 1024},
                                                                                    {1088, 1024},
                                                                                    {1087, 512},
                                                                                    {68, 256}}) {
    EXPECT_EQ(mtu_within(ip_mtu), mtu) << ip_mtu;
  }
}

TEST(RoceWire, ParsedHeadersAreWrittenBackAsCaptured) {
  for (const Frame& frame : captured()) {
    Packet packet;
    ASSERT_EQ(parse(frame.datagram, packet), ParseResult::kOk);
    Bytes written(header_size(packet.headers.opcode));
    write(packet.headers, written.data());
    EXPECT_TRUE(std::equal(written.begin(), written.end(), frame.datagram.begin())) << to_string(packet.headers);
  }
}

TEST(RoceWire, RoundTripOfEveryOpcode) {
  std::mt19937 random(1);
  int known = 0;
  for (int code = 0; code < 512; ++code) {
    const Service service = code < 256 ? Service::kReliable : Service::kUnreliable;
    if (!is_known(static_cast<std::uint8_t>(code), service)) continue;
    ++known;
    Headers h;
    h.opcode = static_cast<Opcode>(code & 0xff);
    h.solicited = random() & 1, h.migration = random() & 1, h.acknowledge = random() & 1;
    h.pad = random() & 3;
    h.partition = static_cast<std::uint16_t>(random());
    h.qpn = random() & kMask24, h.psn = random() & kMask24;
    if (has_reth(h.opcode)) {
      h.address = random() * 0x100000001ull;
      h.rkey = static_cast<std::uint32_t>(random());
      h.length = static_cast<std::uint32_t>(random());
    }
    if (has_immediate(h.opcode)) h.immediate = static_cast<std::uint32_t>(random());
    if (is_acknowledge(h.opcode)) h.syndrome = static_cast<std::uint8_t>(random()), h.msn = random() & kMask24;
    Bytes bytes(header_size(h.opcode) + 7 + h.pad + kIcrcSize);
    write(h, bytes.data());
    Packet packet;
    ASSERT_EQ(parse(bytes, packet, service), ParseResult::kOk);
    EXPECT_EQ(packet.headers, h) << to_string(h);
    EXPECT_EQ(packet.payload.size(), 7u);
    EXPECT_EQ(begins_message(h.opcode), to_string(h.opcode).find("first") != std::string::npos ||
                                            to_string(h.opcode).find("only") != std::string::npos);
    EXPECT_EQ(ends_message(h.opcode), to_string(h.opcode).find("last") != std::string::npos ||
                                          to_string(h.opcode).find("only") != std::string::npos);
    EXPECT_EQ(has_immediate(h.opcode), to_string(h.opcode).find("imm") != std::string::npos);
    EXPECT_EQ(is_write(h.opcode), to_string(h.opcode).find("write") != std::string::npos);
  }
  EXPECT_EQ(known, 13 + 6);
}

TEST(RoceWire, AServiceKnowsItsOwnOpcodesOnly) {
  for (const Opcode opcode : {Opcode::kRcWriteOnlyImm, Opcode::kRcAcknowledge, Opcode::kWriteOnlyImm}) {
    Bytes bytes(header_size(opcode) + kIcrcSize);
    write({.opcode = opcode}, bytes.data());
    Packet packet;
    const bool reliable = opcode != Opcode::kWriteOnlyImm;
    EXPECT_EQ(parse(bytes, packet, Service::kReliable), reliable ? ParseResult::kOk : ParseResult::kUnknownOpcode);
    EXPECT_EQ(parse(bytes, packet), reliable ? ParseResult::kUnknownOpcode : ParseResult::kOk);
  }
}

TEST(RoceWire, TruncatedAndForeignDatagramsAreRefused) {
  Bytes frame = captured()[2].datagram;  // ONLY with immediate
  Packet packet;
  for (std::size_t size = 0; size < header_size(Opcode::kWriteOnlyImm) + kIcrcSize; ++size) {
    EXPECT_EQ(parse(std::span(frame).first(size), packet), ParseResult::kTruncated) << size;
  }
  frame[1] |= 1;
  EXPECT_EQ(parse(frame, packet), ParseResult::kBadVersion);
  frame[0] = 0x04;  // an RC send
  EXPECT_EQ(parse(frame, packet), ParseResult::kUnknownOpcode);
}

TEST(RoceIcrc, EqualsThatOfSoftRoce) {
  for (const Frame& frame : captured()) {
    Packet packet;
    ASSERT_EQ(parse(frame.datagram, packet), ParseResult::kOk);
    EXPECT_EQ(icrc(frame.flow, frame.identification, frame.covered()), packet.icrc) << to_string(packet.headers);
    std::uint8_t stored[kIcrcSize];
    store_icrc(packet.icrc, stored);
    EXPECT_TRUE(std::equal(stored, stored + kIcrcSize, frame.datagram.end() - kIcrcSize));
  }
}

TEST(RoceIcrc, CoversAllButWhatRoutersChange) {
  const Frame frame = captured()[3];
  const std::uint32_t sound = icrc(frame.flow, frame.identification, frame.covered());
  for (std::size_t bit = 0; bit < 8 * frame.covered().size(); ++bit) {
    Bytes damaged = frame.datagram;
    damaged[bit / 8] ^= static_cast<std::uint8_t>(1u << bit % 8);
    const std::uint32_t value =
        icrc(frame.flow, frame.identification, std::span(damaged).first(damaged.size() - kIcrcSize));
    EXPECT_EQ(value == sound, bit / 8 == 4) << "bit " << bit;  // only the byte of congestion marks is not covered
  }
  Flow other = frame.flow;
  ++other.source_port;
  EXPECT_NE(icrc(other, frame.identification, frame.covered()), sound);
  EXPECT_NE(icrc(frame.flow, {0, true}, frame.covered()), sound);
}

TEST(RoceIcrc, BlindCheckFindsTheIdentificationThatASocketCannotSee) {
  BlindIcrcCheck check;
  for (const Frame& frame : captured()) {
    Packet packet;
    ASSERT_EQ(parse(frame.datagram, packet), ParseResult::kOk);
    EXPECT_EQ(check.explain(frame.flow, frame.covered(), packet.icrc), frame.identification);
  }
  const Frame frame = captured()[2];
  for (const Identification id : {Identification{0, false}, {0, true}, {63, true}, {0xffff, false}}) {
    EXPECT_EQ(check.explain(frame.flow, frame.covered(), icrc(frame.flow, id, frame.covered())), id);
  }
}

// A sender of ever new lengths must not make the check keep more memory, nor take much longer. A table for each length
// once took 7 ms.
TEST(RoceIcrc, BlindCheckOfEverNewLengths) {
  static_assert(sizeof(BlindIcrcCheck) < 1024);
  BlindIcrcCheck check;
  std::mt19937 random(9);
  const Flow flow{{10, 0, 0, 1}, {10, 0, 0, 2}, 50000, kUdpPort};
  constexpr std::size_t kLengths = 2000;
  std::vector<std::size_t> lengths(kLengths);
  for (std::size_t i = 0; i < kLengths; ++i) lengths[i] = 13 + i * 32;  // up to the largest datagram
  std::shuffle(lengths.begin(), lengths.end(), random);
  Bytes covered(lengths.size() * 32);
  for (std::uint8_t& byte : covered) byte = static_cast<std::uint8_t>(random());
  std::vector<Identification> ids;
  std::vector<std::uint32_t> icrcs;
  for (const std::size_t length : lengths) {
    ids.push_back({static_cast<std::uint16_t>(random()), random() % 2 == 0});
    icrcs.push_back(icrc(flow, ids.back(), std::span(covered).first(length)));
  }
  const std::uint64_t allocated = testing::allocations();
  const std::clock_t begun = std::clock();
  for (std::size_t i = 0; i < kLengths; ++i) {
    ASSERT_EQ(check.explain(flow, std::span(covered).first(lengths[i]), icrcs[i]), ids[i]) << lengths[i];
  }
  EXPECT_LT(std::clock() - begun, 2 * CLOCKS_PER_SEC) << "1 ms each, of which the CRC itself takes a few microseconds";
  EXPECT_EQ(testing::allocations(), allocated);
  // Lengths change by turns and repeat, so that state kept for one length would be noticed if it was used for another.
  for (std::size_t i = 0; i < 5000; ++i) {
    const std::size_t which = random() % 8 + (i / 1000) * 4;
    for (std::size_t times = random() % 4; times > 0; --times) {
      ASSERT_EQ(check.explain(flow, std::span(covered).first(lengths[which]), icrcs[which]), ids[which]) << i;
    }
  }
}

TEST(RoceIcrc, BlindCheckPassesOneDamagedPacketIn32768) {
  BlindIcrcCheck check;
  std::mt19937 random(7);
  const Frame frame = captured()[3];
  constexpr int kTries = 1 << 18;
  int passed = 0;
  for (int i = 0; i < kTries; ++i) {
    Bytes damaged = frame.datagram;
    for (int bytes = 0; bytes < 8; ++bytes)
      damaged[5 + random() % (damaged.size() - 9)] ^= static_cast<std::uint8_t>(1 + random() % 255);
    Packet packet;
    if (parse(damaged, packet) != ParseResult::kOk) continue;
    passed += check.explain(frame.flow, std::span(damaged).first(damaged.size() - kIcrcSize), packet.icrc).has_value();
  }
  // 8 are expected. A correct check lets more than 30 pass with a probability below 1e-9; a broken one lets half or all
  // of them pass.
  EXPECT_LE(passed, 30);
}

}  // namespace
}  // namespace jaxina::roce
