// Tests the sending half of a reliable queue pair: cutting, numbering, answers, timeouts and errors.
#include <gtest/gtest.h>

#include <memory>

#include "rdma_engine/errors.h"
#include "tests/native/rc_peer.h"

namespace jaxina::rc {
namespace {

using roce::Answer;
using roce::Opcode;

class RcRequester : public ::testing::Test {
 protected:
  void make(RequesterConfig config = {}) {
    config.remote_qpn = 9;
    config.first_psn = 0xfffffe;  // the third packet's number is 0
    config.mtu = 16;
    requester_ = std::make_unique<Requester>(config);
  }
  bool post(std::uint64_t id, std::size_t size, bool has_immediate = true) {
    return requester_->post({.id = id,
                             .write = {.peer = {},
                                       .qpn = 0,
                                       .rkey = kKey,
                                       .address = kMemoryAt,
                                       .immediate = 77,
                                       .head = {payload_.data(), size},
                                       .tail = {}},
                             .has_immediate = has_immediate});
  }
  // The numbers of the packets that are sent now.
  std::vector<std::uint32_t> sent() {
    std::vector<std::uint32_t> psns;
    while (const auto packet = requester_->next_packet(now_)) psns.push_back(packet->headers.psn);
    return psns;
  }
  void answer(Answer answer, std::uint32_t psn, std::uint8_t value = 0) {
    requester_->on_answer(
        {.opcode = Opcode::kRcAcknowledge, .psn = psn, .syndrome = roce::encode_syndrome({answer, value})}, now_);
  }
  std::vector<std::pair<std::uint64_t, CompletionStatus>> completions() {
    std::vector<std::pair<std::uint64_t, CompletionStatus>> all;
    while (const auto completion = requester_->pop_completion()) all.emplace_back(completion->id, completion->status);
    return all;
  }
  using Psns = std::vector<std::uint32_t>;
  using Completed = std::vector<std::pair<std::uint64_t, CompletionStatus>>;

  Bytes payload_ = Bytes(4096, 3);
  std::unique_ptr<Requester> requester_;
  Nanoseconds now_ = 0;
};

TEST_F(RcRequester, AMessageIsCutIntoFirstMiddleAndLast) {
  make();
  ASSERT_TRUE(post(1, 41));
  const auto first = requester_->next_packet(0), middle = requester_->next_packet(0), last = requester_->next_packet(0);
  ASSERT_TRUE(first && middle && last);
  EXPECT_FALSE(requester_->next_packet(0));
  EXPECT_EQ(first->headers, (roce::Headers{.opcode = Opcode::kRcWriteFirst,
                                           .qpn = 9,
                                           .psn = 0xfffffe,
                                           .address = kMemoryAt,
                                           .rkey = kKey,
                                           .length = 41}));
  EXPECT_EQ(middle->headers, (roce::Headers{.opcode = Opcode::kRcWriteMiddle, .qpn = 9, .psn = 0xffffff}));
  EXPECT_EQ(
      last->headers,
      (roce::Headers{
          .opcode = Opcode::kRcWriteLastImm, .pad = 3, .qpn = 9, .acknowledge = true, .psn = 0, .immediate = 77}));
  EXPECT_EQ(last->offset, 32u);
  EXPECT_EQ(last->size, 9u);
}

TEST_F(RcRequester, AMessageWithoutImmediateAndAnEmptyOneTakeOnePacketEach) {
  make();
  ASSERT_TRUE(post(1, 16, false) && post(2, 0));
  EXPECT_EQ(requester_->next_packet(0)->headers.opcode, Opcode::kRcWriteOnly);
  EXPECT_EQ(requester_->next_packet(0)->headers.opcode, Opcode::kRcWriteOnlyImm);
}

TEST_F(RcRequester, AnAcknowledgementCompletesAllBeforeIt) {
  make();
  ASSERT_TRUE(post(1, 16) && post(2, 32) && post(3, 16));
  EXPECT_EQ(sent(), (Psns{0xfffffe, 0xffffff, 0, 1}));
  answer(Answer::kAck, 0xffffff);  // all of message 1, half of message 2
  EXPECT_EQ(completions(), (Completed{{1, CompletionStatus::kSuccess}}));
  answer(Answer::kAck, 1);
  EXPECT_EQ(completions(), (Completed{{2, CompletionStatus::kSuccess}, {3, CompletionStatus::kSuccess}}));
  EXPECT_FALSE(requester_->next_deadline());
}

TEST_F(RcRequester, AnswersThatNameNothingOutstandingChangeNothing) {
  make();
  ASSERT_TRUE(post(1, 16) && post(2, 16));
  EXPECT_EQ(sent().size(), 2u);
  answer(Answer::kAck, 0xfffffe);
  completions();
  for (const std::uint32_t psn : {0xfffffeu, 0xfffffdu, 0u, 5u, 0x800000u}) {  // acknowledged already, or never sent
    answer(Answer::kAck, psn);
    answer(Answer::kRemoteAccess, psn);
    answer(Answer::kRnrNak, psn, 1);
  }
  answer(Answer::kSequenceError, 0xfffffe);
  answer(Answer::kSequenceError, 1);
  requester_->on_answer({.opcode = Opcode::kRcAcknowledge, .psn = 0xffffff, .syndrome = 0x80}, 0);  // reserved
  EXPECT_TRUE(completions().empty());
  EXPECT_TRUE(sent().empty());
  EXPECT_FALSE(requester_->has_ended());
}

TEST_F(RcRequester, ANakSendsAgainFromTheMissingPacketOn) {
  make();
  ASSERT_TRUE(post(1, 64) && post(2, 16));
  EXPECT_EQ(sent(), (Psns{0xfffffe, 0xffffff, 0, 1, 2}));
  answer(Answer::kSequenceError, 0xffffff);
  EXPECT_EQ(requester_->acknowledged(), 1u);
  EXPECT_EQ(sent(), (Psns{0xffffff, 0, 1, 2}));
  EXPECT_EQ(requester_->retransmissions(), 4u);
  answer(Answer::kSequenceError, 3);  // nothing of what was sent is missing
  EXPECT_TRUE(sent().empty());
  EXPECT_EQ(completions().size(), 2u);
}

TEST_F(RcRequester, AnAcknowledgementDuringAResendSkipsWhatHasArrived) {
  make();
  ASSERT_TRUE(post(1, 80));
  EXPECT_EQ(sent().size(), 5u);
  answer(Answer::kSequenceError, 0xfffffe);
  EXPECT_EQ(requester_->next_packet(0)->headers.psn, 0xfffffeu);
  answer(Answer::kAck, 0);
  EXPECT_EQ(sent(), (Psns{1, 2}));
}

TEST_F(RcRequester, ATimeoutSendsAgainUntilTheRetriesAreUsedUp) {
  make({.timeout = 2, .retries = 2});
  ASSERT_TRUE(post(1, 32) && post(2, 16));
  EXPECT_EQ(sent().size(), 3u);
  for (int retry = 0; retry < 2; ++retry) {
    EXPECT_EQ(requester_->next_deadline(), now_ + 4 * 4096);
    now_ += 4 * 4096 - 1;
    requester_->on_tick(now_);
    EXPECT_TRUE(sent().empty());
    requester_->on_tick(++now_);
    EXPECT_EQ(sent(), (Psns{0xfffffe, 0xffffff, 0}));
  }
  requester_->on_tick(now_ += 4 * 4096);
  EXPECT_EQ(completions(), (Completed{{1, CompletionStatus::kRetriesExceeded}, {2, CompletionStatus::kFlushed}}));
  EXPECT_TRUE(requester_->has_ended());
  ASSERT_TRUE(post(3, 16));
  EXPECT_EQ(completions(), (Completed{{3, CompletionStatus::kFlushed}}));
  EXPECT_TRUE(sent().empty());
}

TEST_F(RcRequester, ProgressGivesTheRetriesBack) {
  make({.timeout = 1, .retries = 1});
  ASSERT_TRUE(post(1, 48));
  sent();
  for (const std::uint32_t psn : {0xfffffeu, 0xffffffu}) {
    requester_->on_tick(now_ += 2 * 4096);
    sent();
    answer(Answer::kAck, psn);
  }
  EXPECT_FALSE(requester_->has_ended());
  answer(Answer::kSequenceError, 0);  // a NAK costs a retry, too
  requester_->on_tick(now_ += 2 * 4096);
  EXPECT_EQ(completions(), (Completed{{1, CompletionStatus::kRetriesExceeded}}));
}

TEST_F(RcRequester, WithoutALimitItNeverGivesUpAndAsksEverMoreSeldomUntilThereIsProgress) {
  make({.timeout = 1, .retries = std::nullopt});
  ASSERT_TRUE(post(1, 32));
  EXPECT_EQ(sent().size(), 2u);
  for (int retry = 0; retry < 1000; ++retry) {
    const Nanoseconds timeout = Nanoseconds{2 * 4096} << std::min(retry, 4);
    EXPECT_EQ(requester_->next_deadline(), now_ + timeout);
    requester_->on_tick(now_ += timeout);
    EXPECT_EQ(sent(), (Psns{0xfffffe, 0xffffff}));
  }
  answer(Answer::kAck, 0xfffffe);
  EXPECT_EQ(requester_->next_deadline(), now_ + 2 * 4096);
}

TEST_F(RcRequester, AReceiverThatIsNotReadyIsAskedAgainAfterItsTime) {
  make({.rnr_retries = 1});
  ASSERT_TRUE(post(1, 32));
  sent();
  answer(Answer::kRnrNak, 0xffffff, 2);  // 20 us
  EXPECT_EQ(requester_->next_deadline(), 20'000);
  EXPECT_TRUE(sent().empty());
  now_ = 20'000;
  EXPECT_EQ(sent(), (Psns{0xffffff}));
  answer(Answer::kRnrNak, 0xffffff, 2);
  EXPECT_EQ(completions(), (Completed{{1, CompletionStatus::kRnrRetriesExceeded}}));
}

TEST_F(RcRequester, EveryFatalNakEndsTheConnectionWithItsError) {
  const std::pair<Answer, CompletionStatus> fatal[] = {
      {Answer::kInvalidRequest, CompletionStatus::kRemoteInvalidRequest},
      {Answer::kRemoteAccess, CompletionStatus::kRemoteAccess},
      {Answer::kRemoteOperation, CompletionStatus::kRemoteOperation},
      {Answer::kInvalidRdRequest, CompletionStatus::kRemoteInvalidRequest}};
  for (const auto& [nak, status] : fatal) {
    make();
    ASSERT_TRUE(post(1, 16) && post(2, 16) && post(3, 16));
    sent();
    answer(nak, 0xffffff);
    EXPECT_EQ(completions(),
              (Completed{{1, CompletionStatus::kSuccess}, {2, status}, {3, CompletionStatus::kFlushed}}));
  }
}

TEST_F(RcRequester, AFullWindowAsksForAnAnswer) {
  make({.window = 3});
  ASSERT_TRUE(post(1, 16 * 5));
  EXPECT_FALSE(requester_->next_packet(0)->headers.acknowledge);
  EXPECT_FALSE(requester_->next_packet(0)->headers.acknowledge);
  EXPECT_TRUE(requester_->next_packet(0)->headers.acknowledge);
  EXPECT_FALSE(requester_->next_packet(0));
  answer(Answer::kAck, 0);
  EXPECT_EQ(sent(), (Psns{1, 2}));
}

TEST_F(RcRequester, AFullQueueTakesNothing) {
  make({.queue = 2});
  EXPECT_TRUE(post(1, 16));
  EXPECT_TRUE(post(2, 16));
  EXPECT_FALSE(post(3, 16));
  sent();
  answer(Answer::kAck, 0xffffff);
  EXPECT_FALSE(post(3, 16));  // nobody has read the completions
  EXPECT_EQ(completions().size(), 2u);
  EXPECT_TRUE(post(3, 16));
}

TEST_F(RcRequester, NumbersOutOfRangeAreRefused) {
  const RequesterConfig wrong[] = {{.mtu = 0},
                                   {.mtu = 18},
                                   {.timeout = 0},
                                   {.timeout = 32},
                                   {.window = 0},
                                   {.window = kMaxUnacknowledged + 1},
                                   {.queue = 0},
                                   {.remote_qpn = 1u << 24},
                                   {.first_psn = 1u << 24}};
  for (const RequesterConfig& config : wrong) EXPECT_THROW(Requester{config}, Error);
}

}  // namespace
}  // namespace jaxina::rc
