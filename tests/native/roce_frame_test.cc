// Tests what reliable connections add to RoCEv2 on the wire: sequence numbers, answers, and packets in Ethernet frames.
#include "rdma_engine/wire/roce_frame.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

#include "rdma_engine/wire/aeth.h"
#include "rdma_engine/wire/psn.h"

namespace jaxina::roce {
namespace {

TEST(Psn, DistancesAreSignedAndWrap) {
  EXPECT_EQ(psn_after(kMask24, 1), 0u);
  EXPECT_EQ(psn_after(5, (std::uint64_t{1} << 24) + 3), 8u);
  EXPECT_EQ(psn_distance(kMask24, 0), 1);
  EXPECT_EQ(psn_distance(0, kMask24), -1);
  EXPECT_EQ(psn_distance(7, 7), 0);
  std::mt19937 random(1);
  for (int i = 0; i < 10'000; ++i) {
    const std::uint32_t from = random() & kMask24;
    const auto distance = static_cast<std::int32_t>(random() & kMask24) - kHalfOfPsns;
    const auto to = static_cast<std::uint32_t>(static_cast<std::int64_t>(from) + distance) & kMask24;
    EXPECT_EQ(psn_distance(from, to), distance);
  }
}

TEST(Aeth, EverySyndromeIsReadAsTheSpecificationSays) {
  // Codes of the specification, not computed by encode_syndrome().
  const std::pair<int, Syndrome> known[] = {{0x00, {Answer::kAck, 0}},
                                            {0x1f, {Answer::kAck, kUnlimitedCredits}},
                                            {0x20, {Answer::kRnrNak, 0}},
                                            {0x2c, {Answer::kRnrNak, 12}},
                                            {0x60, {Answer::kSequenceError, 0}},
                                            {0x61, {Answer::kInvalidRequest, 0}},
                                            {0x62, {Answer::kRemoteAccess, 0}},
                                            {0x63, {Answer::kRemoteOperation, 0}},
                                            {0x64, {Answer::kInvalidRdRequest, 0}}};
  for (const auto& [byte, syndrome] : known) {
    EXPECT_EQ(decode_syndrome(static_cast<std::uint8_t>(byte)), syndrome) << byte;
  }
  int reserved = 0;
  for (int byte = 0; byte < 256; ++byte) {
    const Syndrome syndrome = decode_syndrome(static_cast<std::uint8_t>(byte));
    if (syndrome.answer == Answer::kReserved) ++reserved;
    else EXPECT_EQ(encode_syndrome(syndrome), byte);
  }
  EXPECT_EQ(reserved, 256 - 32 - 32 - 5);
}

TEST(Aeth, RnrTimersGrowFromTenMicroseconds) {
  EXPECT_EQ(rnr_delay(1), 10'000);
  EXPECT_EQ(rnr_delay(12), 640'000);
  EXPECT_EQ(rnr_delay(31), 491'520'000);
  EXPECT_EQ(rnr_delay(0), 655'360'000);  // code 0 is the longest
  for (std::uint8_t code = 1; code < 31; ++code) EXPECT_LT(rnr_delay(code), rnr_delay(code + 1));
}

class Frames : public ::testing::Test {
 protected:
  Frames() {
    write_frame_headers(kFlow, 0x1234, frame_.data());
    write(kHeaders, &frame_[kBthAt]);
    size_ = kBthAt + header_size(kHeaders.opcode);
    for (std::uint8_t i = 0; i < 16; ++i) frame_[size_++] = i;
    frame_.resize(finish_frame(frame_.data(), size_));
  }
  static constexpr Flow kFlow{{10, 0, 0, 1}, {10, 0, 0, 2}, 50000, kUdpPort};
  static constexpr Headers kHeaders{.opcode = Opcode::kRcWriteOnlyImm, .qpn = 5, .psn = 7, .length = 16};
  std::vector<std::uint8_t> frame_ = std::vector<std::uint8_t>(256);
  std::size_t size_ = 0;
};

TEST_F(Frames, AFrameIsReadAsItWasWritten) {
  const auto read = read_frame(frame_);
  ASSERT_TRUE(read);
  EXPECT_TRUE(read->is_intact());
  EXPECT_EQ(read->flow, kFlow);
  EXPECT_EQ(read->identification, (Identification{0x1234, true}));
  EXPECT_EQ(read->packet.headers, kHeaders);
  EXPECT_EQ(read->packet.payload.size(), 16u);
  EXPECT_EQ(read->headers.size() + 16 + kIcrcSize, frame_.size());
}

TEST_F(Frames, PaddingOfTheEthernetFrameDoesNotCount) {
  frame_.resize(frame_.size() + 9, 0x55);
  const auto read = read_frame(frame_);
  ASSERT_TRUE(read);
  EXPECT_TRUE(read->is_intact());
  EXPECT_EQ(read->packet.payload.size(), 16u);
}

// Every bit: either the frame is no longer one of ours, or its ICRC is wrong, or routers and switches may change it.
TEST_F(Frames, EveryChangedBitIsNoticedButThoseThatRoutersChange) {
  std::set<std::size_t> unnoticed;
  for (std::size_t bit = 0; bit < 8 * frame_.size(); ++bit) {
    frame_[bit / 8] ^= static_cast<std::uint8_t>(1u << bit % 8);
    const auto read = read_frame(frame_);
    if (read && read->is_intact()) unnoticed.insert(bit / 8);
    frame_[bit / 8] ^= static_cast<std::uint8_t>(1u << bit % 8);
  }
  std::set<std::size_t> changeable;
  for (std::size_t i = 0; i < 12; ++i) changeable.insert(i);                      // MAC addresses
  for (const std::size_t i : {15, 22, 24, 25, 40, 41, 46}) changeable.insert(i);  // TOS, TTL, checksums, BTH byte 4
  EXPECT_EQ(unnoticed, changeable);
}

TEST_F(Frames, OtherFramesAreNotRead) {
  const auto with = [this](std::size_t at, std::uint8_t value) {
    std::vector<std::uint8_t> frame = frame_;
    frame[at] = value;
    return read_frame(frame).has_value();
  };
  EXPECT_TRUE(with(14, 0x45));
  EXPECT_FALSE(with(12, 0x86));      // not IPv4
  EXPECT_FALSE(with(14, 0x46));      // options
  EXPECT_FALSE(with(20, 0x20));      // more fragments follow
  EXPECT_FALSE(with(23, 6));         // TCP
  EXPECT_FALSE(with(kBthAt, 0x2b));  // a write of an unreliable connection
  EXPECT_FALSE(with(kBthAt, 0x0c));  // a read
  for (std::size_t size = 0; size < frame_.size(); ++size) {
    EXPECT_FALSE(read_frame(std::span(frame_).first(size))) << size;
  }
}

}  // namespace
}  // namespace jaxina::roce
