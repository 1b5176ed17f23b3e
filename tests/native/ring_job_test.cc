// Tests a ring at a transparent switch: sums, headers that survive, and what copies and gaps do.
#include <gtest/gtest.h>

#include "tests/native/ring_fixture.h"

namespace jaxina::netreduce {
namespace {

TEST_F(Ring, NothingLeavesUntilAllHaveCome) {
  for (std::uint32_t w = 0; w < 2; ++w)
    EXPECT_TRUE(on(frame(w, 0, {.words = words({w + 1, 0xffffffff, 1, 2})}, 0)).empty());
  const auto out = on(frame(2, 0, {.words = words({3, 2, 1, 2})}, 0));
  ASSERT_EQ(out.size(), 3u);
  for (std::uint32_t w = 0; w < 3; ++w) {
    EXPECT_EQ(payload_of(out[w]), words({6, 0, 3, 6}));
    EXPECT_EQ(read(out[w]).packet.headers.qpn, 100u + w);
    EXPECT_EQ(read(out[w]).packet.headers.rkey, 0x55u + w);
  }
  EXPECT_EQ(job_->counters()[Counter::kUpdates], 3u);
  EXPECT_EQ(job_->counters()[Counter::kResults], 1u);
}

TEST_F(Ring, WordsAreAddedAndOfExponentsTheLargestStays) {
  const auto message = [](std::uint32_t w) {
    return Message{.words = words({w, w, 1, 1}), .exponents = {static_cast<std::uint8_t>(10 * w), 9, 7, 0}};
  };
  for (std::uint32_t w = 0; w < 3; ++w) {
    for (std::size_t index = 0; index < 2; ++index) on(frame(w, 0, message(w), index));
  }
  // What left last are the packets with exponents, at the end of a message of two packets.
  ASSERT_EQ(out_.size(), 3u);
  for (const Bytes& last : out_) EXPECT_EQ(payload_of(last), (Bytes{20, 9, 7, 0}));
}

// The exponents of a pass of 5 words, of which two are the check, lie in the packet of the last words.
TEST_F(Ring, APacketMayHaveWordsAndExponents) {
  for (std::uint32_t w = 0; w < 3; ++w) {
    const Message message{.words = words({1, 2, 3}), .exponents = {static_cast<std::uint8_t>(0xf0 + w), 0, 0, 0}};
    on(frame(w, 0, message, 0));
  }
  ASSERT_EQ(out_.size(), 3u);
  Bytes expected = words({3, 6, 9});
  expected.insert(expected.end(), {0xf2, 0, 0, 0});
  EXPECT_EQ(payload_of(out_[0]), expected);
}

TEST_F(Ring, EachPacketLeavesWithItsOwnHeaders) {
  const Options options[] = {{.asks = true, .id = 7}, {.traffic_class = 3}, {.congestion = 0x80, .immediate = 6}};
  for (std::uint32_t w = 0; w < 3; ++w) {
    on(frame(w, 0, {}, 0, options[w]), static_cast<std::uint16_t>(40 + w));
  }
  ASSERT_EQ(out_.size(), 3u);
  for (std::size_t w = 0; w < 3; ++w) {
    // The payload is all zeros, so the sum is what was sent. Only the immediate says that it is one.
    Options summed = options[w];
    summed.immediate |= roce::bits_of(roce::RingKind::kSummed);
    EXPECT_EQ(out_[w], frame(static_cast<std::uint32_t>(w), 0, {}, 0, summed)) << w;
    EXPECT_EQ(egress_[w], 40 + w);
  }
}

TEST_F(Ring, PacketsLeaveInTheOrderOfTheirConnection) {
  // Worker 0 sends slot 1 before slot 0; the others the other way round.
  on(frame(0, 0, {.slot = 1}, 0));
  on(frame(0, 1, {.slot = 0}, 0));
  for (std::uint32_t w = 1; w < 3; ++w) on(frame(w, 0, {.slot = 0}, 0));
  // Slot 0 is complete, but worker 0's packet of it waits behind its packet of slot 1.
  ASSERT_EQ(out_.size(), 2u);
  for (const Bytes& left : out_) EXPECT_NE(read(left).packet.headers.qpn, 100u);
  on(frame(1, 1, {.slot = 1}, 0));
  const auto out = on(frame(2, 1, {.slot = 1}, 0));
  ASSERT_EQ(out.size(), 4u);
  EXPECT_EQ(psn_of(out[0]), kFirstPsn);
  EXPECT_EQ(psn_of(out[1]), roce::psn_after(kFirstPsn, 1));
}

TEST_F(Ring, ACopyOfAHeldPacketCountsOnceAndItsHeadersCount) {
  for (int copy = 0; copy < 3; ++copy) {
    EXPECT_TRUE(on(frame(0, 0, {.words = words({1, 1, 1, 1})}, 0, {.asks = copy == 2})).empty());
  }
  for (std::uint32_t w = 1; w < 3; ++w) on(frame(w, 0, {.words = words({1, 1, 1, 1})}, 0));
  ASSERT_EQ(out_.size(), 3u);
  EXPECT_EQ(payload_of(out_[0]), words({3, 3, 3, 3}));
  EXPECT_TRUE(read(out_[0]).packet.headers.acknowledge);
  EXPECT_EQ(job_->counters()[Counter::kDuplicates], 2u);
}

TEST_F(Ring, ACopyOfAReleasedPacketBringsTheSumAgainWithTheCopysHeaders) {
  for (std::uint32_t w = 0; w < 3; ++w) on(frame(w, 0, {.words = words({1, 1, 1, 1})}, 0));
  // The sender's buffer may have another pass's words by now.
  const auto out = on(frame(1, 0, {.words = words({9, 9, 9, 9})}, 0, {.asks = true, .id = 99}));
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(payload_of(out[0]), words({3, 3, 3, 3}));
  EXPECT_EQ(read(out[0]).identification.id, 99);
  EXPECT_TRUE(read(out[0]).packet.headers.acknowledge);
  EXPECT_EQ(job_->counters()[Counter::kUpdates], 3u);
}

TEST_F(Ring, ASenderThatGoesBackIntoAMessageIsUnderstood) {
  const Message message{.words = words({1, 2, 3, 4, 5, 6, 7, 8})};  // two packets
  for (std::uint32_t w = 0; w < 3; ++w) {
    for (std::size_t index = 0; index < 2; ++index) on(frame(w, 0, message, index));
  }
  const auto out = on(frame(2, 0, message, 1));
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(payload_of(out[0]), words({15, 18, 21, 24}));
}

TEST_F(Ring, BehindAGapAnEmptyWriteLeavesAndNothingIsTaken) {
  begin();
  const Message message{.words = words({1, 2, 3, 4, 5, 6, 7, 8})};
  const auto out = on(frame(0, 1, message, 1, {.id = 3}));
  ASSERT_EQ(out.size(), 1u);
  const roce::RoceFrame empty = read(out[0]);
  EXPECT_EQ(empty.packet.headers, (roce::Headers{.opcode = roce::Opcode::kRcWriteOnly,
                                                 .qpn = 100,
                                                 .acknowledge = true,
                                                 .psn = roce::psn_after(kFirstPsn, 2 + (1u << 22)),
                                                 .address = 0x10000,
                                                 .rkey = 0x55}));
  EXPECT_TRUE(empty.packet.payload.empty());
  EXPECT_EQ(job_->counters()[Counter::kRdmaOutOfSequence], 1u);
  for (std::uint32_t w = 0; w < 3; ++w) {
    for (std::size_t index = 0; index < 2; ++index) on(frame(w, 1, message, index));
  }
  ASSERT_EQ(out_.size(), 3u);
  EXPECT_EQ(payload_of(out_[0]), words({15, 18, 21, 24}));
}

TEST_F(Ring, ACopyWhoseSumIsGoneBringsAnEmptyWriteOfItsNumber) {
  for (std::uint32_t epoch = 0; epoch < 3; ++epoch) {
    for (std::uint32_t w = 0; w < 3; ++w) on(frame(w, epoch, {.epoch = epoch}, 0));
  }
  const auto out = on(frame(0, 0, {.epoch = 0}, 0));  // version 0 has pass 2
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(read(out[0]).packet.headers.opcode, roce::Opcode::kRcWriteOnly);
  EXPECT_EQ(psn_of(out[0]), kFirstPsn);
  EXPECT_TRUE(read(out[0]).packet.payload.empty());
}

TEST_F(Ring, ACopyOlderThanAllMessagesThatAreKeptBringsTheSame) {
  for (std::uint32_t epoch = 0; epoch < 7; ++epoch) {  // the ring keeps 2 x 3
    for (std::uint32_t w = 0; w < 3; ++w) on(frame(w, epoch, {.epoch = epoch}, 0));
  }
  const auto out = on(frame(0, 0, {.epoch = 0}, 0));
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(read(out[0]).packet.headers.opcode, roce::Opcode::kRcWriteOnly);
}

TEST_F(Ring, FromBeforeTheConnectionNothingLeaves) {
  begin();
  Bytes early = frame(0, (1u << 24) - 1, {}, 0);
  EXPECT_TRUE(on(early).empty());
  EXPECT_FALSE(job_->has_ended());
}

TEST_F(Ring, MostOfARingsMemoryIsHeldForItsConnections) {
  const auto bytes = [](std::size_t workers) {
    RingSpec spec = Ring::spec();
    spec.members.resize(workers);
    return RingJob::bytes_for(spec);
  };
  EXPECT_GT(bytes(3) - bytes(2), sizeof(HeldPackets));
  EXPECT_GT(bytes(2), 2 * sizeof(HeldPackets) + BlockSums::bytes_for(spec()));
}

TEST_F(Ring, PassesOfDifferentLengthsShareASlot) {
  const std::size_t lengths[] = {4, 8, 2, 8, 3};
  std::uint64_t number = 0;
  for (std::uint32_t epoch = 0; epoch < 5; ++epoch) {
    Message message{.epoch = epoch, .words = {}};
    for (std::uint32_t i = 0; i < lengths[epoch]; ++i) {
      const Bytes word = words({100 * epoch + i});
      message.words.insert(message.words.end(), word.begin(), word.end());
    }
    const std::size_t packets = roce::packets_of(message.words.size(), kMtu);
    for (std::uint32_t w = 0; w < 3; ++w) {
      for (std::size_t index = 0; index < packets; ++index) on(frame(w, number, message, index));
    }
    ASSERT_EQ(out_.size(), 3u) << epoch;
    const Bytes last = payload_of(out_[2]);
    EXPECT_EQ(Bytes(last.end() - 4, last.end()),
              words({3 * (100 * epoch + static_cast<std::uint32_t>(lengths[epoch]) - 1)}));
    number += packets;
  }
  EXPECT_EQ(job_->counters()[Counter::kResults], 5u);
}

}  // namespace
}  // namespace jaxina::netreduce
