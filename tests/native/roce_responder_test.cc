// Tests the receiving half of a queue pair: what a gap, a duplicate, a wrap of the numbers and a wrong length do.
#include <gtest/gtest.h>

#include <vector>

#include "rdma_engine/messages/pass_message.h"
#include "rdma_engine/messages/write_responder.h"

namespace jaxina::roce {
namespace {

constexpr std::size_t kMtu = 256;

class Responder : public ::testing::Test {
 protected:
  Placement take(Opcode opcode, std::uint32_t psn, std::size_t size, std::uint32_t length = 0, std::uint8_t fill = 1) {
    const std::vector<std::uint8_t> payload(size, fill);
    const Packet packet{{.opcode = opcode, .psn = psn, .length = length, .immediate = 5}, payload, 0};
    return responder_.on_packet(
        packet, kMtu, [this](const Headers& h) { return h.length <= memory_.size() ? memory_.data() : nullptr; });
  }
  WriteResponder responder_;
  std::vector<std::uint8_t> memory_ = std::vector<std::uint8_t>(4 * kMtu);
};

TEST_F(Responder, AMessageIsPlacedInOrderAcrossTheWrapOfSequenceNumbers) {
  EXPECT_EQ(take(Opcode::kWriteFirst, 0xfffffe, kMtu, 2 * kMtu + 9, 1), Placement::kPlaced);
  EXPECT_EQ(take(Opcode::kWriteMiddle, 0xffffff, kMtu, 0, 2), Placement::kPlaced);
  EXPECT_EQ(take(Opcode::kWriteLastImm, 0, 9, 0, 3), Placement::kComplete);
  EXPECT_EQ(responder_.message().length, 2 * kMtu + 9);
  EXPECT_EQ(responder_.message().immediate, 5u);
  EXPECT_EQ(memory_[0], 1);
  EXPECT_EQ(memory_[kMtu], 2);
  EXPECT_EQ(memory_[2 * kMtu + 8], 3);
  EXPECT_EQ(memory_[2 * kMtu + 9], 0);
}

TEST_F(Responder, AGapDropsAllUpToTheNextFirstPacket) {
  EXPECT_EQ(take(Opcode::kWriteFirst, 10, kMtu, 3 * kMtu), Placement::kPlaced);
  EXPECT_EQ(take(Opcode::kWriteLastImm, 12, kMtu), Placement::kOutOfSequence);
  EXPECT_EQ(take(Opcode::kWriteMiddle, 11, kMtu), Placement::kOutOfSequence);  // the missing packet, too late
  EXPECT_EQ(take(Opcode::kWriteLastImm, 12, kMtu), Placement::kOutOfSequence);
  EXPECT_EQ(take(Opcode::kWriteFirst, 500, kMtu, 2 * kMtu), Placement::kPlaced);
  EXPECT_EQ(take(Opcode::kWriteLastImm, 501, kMtu), Placement::kComplete);
}

TEST_F(Responder, ADuplicateInsideAMessageDropsTheMessage) {
  EXPECT_EQ(take(Opcode::kWriteFirst, 10, kMtu, 3 * kMtu), Placement::kPlaced);
  EXPECT_EQ(take(Opcode::kWriteMiddle, 11, kMtu), Placement::kPlaced);
  EXPECT_EQ(take(Opcode::kWriteMiddle, 11, kMtu), Placement::kOutOfSequence);
  EXPECT_EQ(take(Opcode::kWriteLastImm, 12, kMtu), Placement::kOutOfSequence);
}

TEST_F(Responder, ASinglePacketMessageIsTakenWhateverItsNumber) {
  EXPECT_EQ(take(Opcode::kWriteOnlyImm, 10, 7, 7), Placement::kComplete);
  EXPECT_EQ(take(Opcode::kWriteOnlyImm, 10, 7, 7), Placement::kComplete);
  EXPECT_EQ(take(Opcode::kWriteOnlyImm, 3, 0, 0), Placement::kComplete);
}

TEST_F(Responder, ANewFirstPacketDropsTheUnfinishedMessage) {
  EXPECT_EQ(take(Opcode::kWriteFirst, 10, kMtu, 2 * kMtu), Placement::kPlaced);
  EXPECT_EQ(take(Opcode::kWriteFirst, 11, kMtu, 2 * kMtu), Placement::kPlaced);
  EXPECT_EQ(take(Opcode::kWriteLastImm, 12, kMtu), Placement::kComplete);
}

TEST_F(Responder, LengthsThatContradictAreDropped) {
  EXPECT_EQ(take(Opcode::kWriteOnlyImm, 0, 7, 8), Placement::kBadLength);
  EXPECT_EQ(take(Opcode::kWriteOnlyImm, 0, kMtu + 4, kMtu + 4), Placement::kBadLength);
  EXPECT_EQ(take(Opcode::kWriteFirst, 0, kMtu, kMtu), Placement::kBadLength);
  EXPECT_EQ(take(Opcode::kWriteFirst, 0, kMtu - 4, 2 * kMtu), Placement::kBadLength);
  EXPECT_EQ(take(Opcode::kWriteFirst, 0, kMtu, 2 * kMtu), Placement::kPlaced);
  EXPECT_EQ(take(Opcode::kWriteLastImm, 1, kMtu - 4), Placement::kBadLength);
  EXPECT_EQ(take(Opcode::kWriteFirst, 0, kMtu, 2 * kMtu), Placement::kPlaced);
  EXPECT_EQ(take(Opcode::kWriteMiddle, 1, kMtu), Placement::kBadLength);  // would leave nothing for the last packet
  EXPECT_EQ(take(Opcode::kWriteLastImm, 2, 0), Placement::kOutOfSequence);
}

TEST_F(Responder, ARefusedMessageWritesNothing) {
  EXPECT_EQ(take(Opcode::kWriteFirst, 0, kMtu, 5 * kMtu), Placement::kNoAccess);
  EXPECT_EQ(take(Opcode::kWriteMiddle, 1, kMtu), Placement::kOutOfSequence);
  EXPECT_EQ(memory_, std::vector<std::uint8_t>(4 * kMtu));
}

// The forger is a neighbour who guesses a queue pair's number, but has no key to its memory.
TEST_F(Responder, AForgedFirstPacketDoesNotDisturbAMessageUnderWay) {
  EXPECT_EQ(take(Opcode::kWriteFirst, 7, kMtu, 2 * kMtu + 9, 1), Placement::kPlaced);
  EXPECT_EQ(take(Opcode::kWriteFirst, 99, kMtu, 5 * kMtu, 6), Placement::kNoAccess);
  EXPECT_EQ(take(Opcode::kWriteOnlyImm, 99, 8, 9, 6), Placement::kBadLength);
  EXPECT_EQ(take(Opcode::kWriteMiddle, 8, kMtu, 0, 2), Placement::kPlaced);
  EXPECT_EQ(take(Opcode::kWriteLastImm, 9, 9, 0, 3), Placement::kComplete);
  EXPECT_EQ(memory_[0], 1);
}

TEST(PassMessage, NamesAndPlaces) {
  for (const PassName name : {PassName{0, 0, 0}, {1, 2, 3, wire::Format::kInt8}, {0xffffffff, 0xffff, 64}})
    EXPECT_EQ(pass_at(address_of(name)), name);
  EXPECT_FALSE(pass_at(address_of({1, 2, 3}) | 4));
  for (const bool whole_chunks : {true, false}) {
    const MessageLayout layout(JobShape({.devices = 1,
                                         .workers = 1,
                                         .slots = 8,
                                         .block_size = 256,
                                         .blocks_per_chunk = 16,
                                         .whole_chunks = whole_chunks}));
    // A message has two check words, except with whole chunks: then the aggregator has no place for them.
    const std::size_t check = whole_chunks ? 0 : 8;
    EXPECT_EQ(4 * layout.check_words(), check);
    const auto pass = [](std::uint16_t words, std::uint8_t exponents, wire::Format format = wire::Format::kInt32) {
      return Pass{.slot = 0,
                  .epoch = 0,
                  .fingerprint = 0,
                  .words = words,
                  .exponents = exponents,
                  .phase = Phase::kData,
                  .format = format,
                  .sent_before = 0};
    };
    EXPECT_EQ(layout.bytes(pass(4096, 16)), 16 * 1024u + check + 16);
    EXPECT_EQ(layout.bytes(pass(4096, 0)), 16 * 1024u + check);
    EXPECT_EQ(layout.exponents_at(pass(4096, 16)), 16 * 1024u + check);
    EXPECT_EQ(layout.bytes(pass(257, 3)), 2 * 1024u + check + 4);  // whole blocks, then the check, then the exponents
    EXPECT_EQ(layout.bytes(pass(257, 0)), 257 * 4u + check);
    EXPECT_EQ(layout.bytes(pass(0, 16)), check + 16);
    EXPECT_EQ(layout.bytes(pass(259, 3, wire::Format::kInt8)), 259 * 4u + check + 4);
    // Narrow words come with a seed, and with more exponents.
    EXPECT_EQ(layout.largest(), layout.bytes(pass(4096, 16)) + (whole_chunks ? 0 : 8 + 48));
    EXPECT_EQ(layout.stride(), 32 * 1024u);
    EXPECT_EQ(layout.result_place(1, 4), layout.result_place(1, 0));
    EXPECT_EQ(layout.result_place(1, 0) - layout.result_place(0, 3), layout.stride());
    EXPECT_EQ(layout.queues(), 9u);
    EXPECT_EQ(layout.notices(), 8u);
  }
}

}  // namespace
}  // namespace jaxina::roce
