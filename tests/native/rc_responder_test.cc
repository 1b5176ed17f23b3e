// Tests the receiving half of a reliable queue pair: each write once and in order, and the answers.
#include <gtest/gtest.h>

#include <memory>

#include "tests/native/rc_peer.h"

namespace jaxina::rc {
namespace {

using roce::Answer;
using roce::Opcode;

class RcResponder : public ::testing::Test {
 protected:
  RcResponder() { responder().post_receives(100); }
  Responder& responder() { return receiver_.responder(); }
  bool take(Opcode opcode, std::uint32_t psn, std::size_t size, std::uint32_t length = 0, bool asks = false,
            std::uint32_t key = kKey, std::uint64_t address = kMemoryAt, std::uint8_t fill = 1) {
    const Bytes payload(size, fill);
    return receiver_.take({{.opcode = opcode,
                            .qpn = 1,
                            .acknowledge = asks,
                            .psn = psn,
                            .address = address,
                            .rkey = key,
                            .length = length,
                            .immediate = 5},
                           payload,
                           0});
  }
  // What the answer says, and its number; nothing is kReserved.
  std::pair<Answer, std::uint32_t> answer() {
    const auto headers = responder().take_answer();
    if (!headers) return {Answer::kReserved, 0};
    EXPECT_EQ(headers->opcode, Opcode::kRcAcknowledge);
    EXPECT_EQ(headers->qpn, 4u);
    EXPECT_EQ(headers->msn, responder().messages());
    return {roce::decode_syndrome(headers->syndrome).answer, headers->psn};
  }
  using Said = std::pair<Answer, std::uint32_t>;
  static constexpr Said kSilent{Answer::kReserved, 0};

  Receiver receiver_{{.remote_qpn = 4, .first_psn = 0xfffffe, .mtu = 16}, 64};
};

TEST_F(RcResponder, AMessageIsTakenAcrossTheWrapAndAnsweredWhenAsked) {
  EXPECT_FALSE(take(Opcode::kRcWriteFirst, 0xfffffe, 16, 40));
  EXPECT_FALSE(take(Opcode::kRcWriteMiddle, 0xffffff, 16, 0, false, 0, 0, 2));
  EXPECT_EQ(answer(), kSilent);
  EXPECT_TRUE(take(Opcode::kRcWriteLastImm, 0, 8, 0, true, 0, 0, 3));
  EXPECT_EQ(responder().message().immediate, 5u);
  EXPECT_TRUE(responder().has_immediate());
  EXPECT_EQ(answer(), (Said{Answer::kAck, 0}));
  EXPECT_EQ(answer(), kSilent);
  EXPECT_EQ(receiver_.memory()[16], 2);
  EXPECT_EQ(receiver_.memory()[39], 3);
  EXPECT_EQ(receiver_.memory()[40], 0);
}

TEST_F(RcResponder, AnswersAreCoalesced) {
  EXPECT_TRUE(take(Opcode::kRcWriteOnlyImm, 0xfffffe, 8, 8, true));
  EXPECT_TRUE(take(Opcode::kRcWriteOnlyImm, 0xffffff, 8, 8, true));
  EXPECT_EQ(answer(), (Said{Answer::kAck, 0xffffff}));
  EXPECT_EQ(answer(), kSilent);
}

TEST_F(RcResponder, ADuplicateIsAnsweredAndNotExecuted) {
  EXPECT_TRUE(take(Opcode::kRcWriteOnlyImm, 0xfffffe, 8, 8));
  EXPECT_TRUE(take(Opcode::kRcWriteOnlyImm, 0xffffff, 8, 8));
  EXPECT_FALSE(take(Opcode::kRcWriteOnlyImm, 0xfffffe, 8, 8, false, kKey, kMemoryAt, 9));
  EXPECT_EQ(answer(), (Said{Answer::kAck, 0xffffff}));
  EXPECT_EQ(receiver_.memory()[0], 1);
  EXPECT_EQ(responder().messages(), 2u);
}

TEST_F(RcResponder, ADuplicateFromBeforeTheConnectionIsNotAnswered) {
  EXPECT_FALSE(take(Opcode::kRcWriteOnlyImm, 0xfffffd, 8, 8));
  EXPECT_EQ(answer(), kSilent);
}

TEST_F(RcResponder, AGapIsAnsweredOnceUntilItIsClosed) {
  EXPECT_FALSE(take(Opcode::kRcWriteOnlyImm, 0xffffff, 8, 8));
  EXPECT_EQ(answer(), (Said{Answer::kSequenceError, 0xfffffe}));
  EXPECT_FALSE(take(Opcode::kRcWriteOnlyImm, 0, 8, 8));
  EXPECT_EQ(answer(), kSilent);
  EXPECT_TRUE(take(Opcode::kRcWriteOnlyImm, 0xfffffe, 8, 8));
  EXPECT_FALSE(take(Opcode::kRcWriteOnlyImm, 0, 8, 8));
  EXPECT_EQ(answer(), (Said{Answer::kSequenceError, 0xffffff}));
  EXPECT_EQ(receiver_.memory()[0], 1);
}

TEST_F(RcResponder, WhatTheSwitchSendsInPlaceOfAGapWritesNothing) {
  const std::uint32_t far_ahead = roce::psn_after(0xfffffe, 1u << 22);
  EXPECT_FALSE(take(Opcode::kRcWriteOnly, far_ahead, 0, 0));
  EXPECT_EQ(answer(), (Said{Answer::kSequenceError, 0xfffffe}));
  EXPECT_EQ(responder().received(), 0u);
}

TEST_F(RcResponder, WithoutAReceiveRequestAWriteWithImmediateWaits) {
  Receiver bare({.remote_qpn = 4, .first_psn = 7, .mtu = 16, .rnr_timer = 3}, 64);
  const Bytes payload(8, 1);
  const roce::Packet packet{
      {.opcode = Opcode::kRcWriteOnlyImm, .psn = 7, .address = kMemoryAt, .rkey = kKey, .length = 8}, payload, 0};
  EXPECT_FALSE(bare.take(packet));
  const auto said = bare.responder().take_answer();
  ASSERT_TRUE(said);
  EXPECT_EQ(roce::decode_syndrome(said->syndrome), (roce::Syndrome{Answer::kRnrNak, 3}));
  EXPECT_EQ(said->psn, 7u);
  EXPECT_EQ(bare.memory()[0], 0);
  roce::Packet next = packet;
  next.headers.psn = 8;
  EXPECT_FALSE(bare.take(next));
  EXPECT_FALSE(bare.responder().take_answer());  // the RNR NAK was said already
  bare.responder().post_receives(1);
  EXPECT_TRUE(bare.take(packet));
  EXPECT_FALSE(bare.take(next));
  EXPECT_TRUE(bare.responder().take_answer());
  // A write without an immediate takes no receive request.
  next.headers.opcode = Opcode::kRcWriteOnly;
  EXPECT_TRUE(bare.take(next));
  EXPECT_FALSE(bare.responder().has_immediate());
}

TEST_F(RcResponder, AWrongKeyAndAWriteBeyondTheMemoryEndTheConnection) {
  const struct {
    std::uint32_t key, length;
    std::uint64_t address;
  } wrong[] = {{kKey + 1, 8, kMemoryAt}, {kKey, 8, kMemoryAt - 1}, {kKey, 8, kMemoryAt + 57}, {kKey, 8, ~0ull}};
  for (const auto& [key, length, address] : wrong) {
    Receiver receiver({.remote_qpn = 4, .first_psn = 0, .mtu = 16}, 64);
    receiver.responder().post_receives(2);
    const Bytes payload(length, 1);
    roce::Packet packet{
        {.opcode = Opcode::kRcWriteOnlyImm, .address = address, .rkey = key, .length = length}, payload, 0};
    EXPECT_FALSE(receiver.take(packet));
    EXPECT_TRUE(receiver.responder().has_ended());
    const auto said = receiver.responder().take_answer();
    ASSERT_TRUE(said);
    EXPECT_EQ(roce::decode_syndrome(said->syndrome).answer, Answer::kRemoteAccess);
    EXPECT_EQ(receiver.memory(), Bytes(64));
    packet.headers.rkey = kKey, packet.headers.address = kMemoryAt;
    EXPECT_FALSE(receiver.take(packet));  // an ended connection executes and answers nothing
    EXPECT_FALSE(receiver.responder().take_answer());
  }
}

TEST_F(RcResponder, AnEmptyWriteNeedsNoKey) {
  EXPECT_TRUE(take(Opcode::kRcWriteOnly, 0xfffffe, 0, 0, false, 0, 0));
  EXPECT_FALSE(responder().has_ended());
}

TEST_F(RcResponder, WhatCannotBeExecutedEndsTheConnection) {
  const struct {
    Opcode before, opcode;
    std::size_t size;
    std::uint32_t length;
  } wrong[] = {
      {Opcode::kRcWriteOnlyImm, Opcode::kRcWriteMiddle, 16, 0},    // no message has begun
      {Opcode::kRcWriteOnlyImm, Opcode::kRcWriteLastImm, 8, 0},    // the same
      {Opcode::kRcWriteFirst, Opcode::kRcWriteFirst, 16, 40},      // a message has begun
      {Opcode::kRcWriteFirst, Opcode::kRcWriteOnlyImm, 8, 8},      // the same
      {Opcode::kRcWriteFirst, Opcode::kRcWriteLastImm, 16, 0},     // too short for its length
      {Opcode::kRcWriteFirst, Opcode::kRcWriteMiddle, 8, 0},       // not a whole packet
      {Opcode::kRcWriteOnlyImm, Opcode::kRcWriteOnlyImm, 8, 9},    // not its length
      {Opcode::kRcWriteOnlyImm, Opcode::kRcWriteOnlyImm, 20, 20},  // more than a packet
      {Opcode::kRcWriteOnlyImm, Opcode::kRcSendOnly, 8, 0},        // sends are not executed here
  };
  for (const auto& [before, opcode, size, length] : wrong) {
    Receiver receiver({.remote_qpn = 4, .first_psn = 0, .mtu = 16}, 64);
    receiver.responder().post_receives(2);
    const Bytes payload(20, 1);
    const bool first = before == Opcode::kRcWriteFirst;
    receiver.take({{.opcode = before, .address = kMemoryAt, .rkey = kKey, .length = first ? 40u : 8u},
                   std::span(payload).first(first ? 16 : 8),
                   0});
    ASSERT_FALSE(receiver.responder().has_ended());
    EXPECT_FALSE(receiver.take({{.opcode = opcode, .psn = 1, .address = kMemoryAt, .rkey = kKey, .length = length},
                                std::span(payload).first(size),
                                0}));
    EXPECT_TRUE(receiver.responder().has_ended()) << to_string(opcode) << " " << size;
    const auto said = receiver.responder().take_answer();
    ASSERT_TRUE(said);
    EXPECT_EQ(roce::decode_syndrome(said->syndrome).answer, Answer::kInvalidRequest);
    EXPECT_EQ(said->psn, 1u);
  }
}

}  // namespace
}  // namespace jaxina::rc
