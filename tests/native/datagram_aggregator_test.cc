// Tests the aggregators behind datagrams, packet by packet. Packets come in order, again, late, too early, forged, and
// after the job has ended.
#include "rdma_engine/datagrams/datagram_aggregator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "rdma_engine/base/utf8.h"
#include "rdma_engine/datagrams/notices.h"
#include "rdma_engine/datagrams/switch_contact.h"
#include "tests/native/allocations.h"
#include "tests/native/datagram_packets.h"
#include "tests/native/small_shape.h"

namespace jaxina {
namespace {

using testing::address;
using testing::Bytes;
using testing::Outbox;
using testing::Sent;

class DatagramAggregatorTest : public ::testing::Test {
 protected:
  DatagramAggregatorTest() { add(); }
  void add() { EXPECT_TRUE(aggregator_.add(std::make_unique<DatagramJob>(spec_, Shard{}))); }

  wire::Header header(std::uint32_t worker, std::uint32_t epoch) const {
    return {.kind = wire::Kind::kUpdate,
            .job = spec_.job,
            .secret = spec_.secret,
            .worker = static_cast<std::uint16_t>(worker),
            .slot = 0,
            .epoch = epoch,
            .fingerprint = 100 + epoch,
            .words = 2,
            .exponents = 1,
            .code = 0};
  }
  std::vector<Sent> deliver(const Bytes& bytes, std::uint8_t from) {
    aggregator_.on_packet(bytes, address(from), outbox_);
    return outbox_.take();
  }
  std::vector<Sent> update(std::uint32_t worker, std::uint32_t epoch) {
    return deliver(
        testing::packet(header(worker, epoch), 1000 * epoch + 10 * worker, static_cast<std::uint8_t>(50 + worker)),
        static_cast<std::uint8_t>(worker));
  }
  std::vector<std::uint32_t> sum(std::uint32_t epoch) const { return {3000 * epoch + 30, 3000 * epoch + 33}; }
  const Counters& counters() const { return aggregator_.find(spec_.job)->counters(); }
  std::uint64_t rejected(Counter reason) const { return aggregator_.without_job()[reason] + counters()[reason]; }

  // Expects that the packet is rejected for this reason and no other, and that nothing is added.
  void expect_rejected(const Bytes& bytes, Counter reason, std::uint8_t from = 9) {
    const std::uint64_t updates = counters()[Counter::kUpdates], before = rejected(reason);
    deliver(bytes, from);
    EXPECT_EQ(counters()[Counter::kUpdates], updates) << to_string(reason);
    EXPECT_EQ(rejected(reason), before + 1) << to_string(reason);
  }

  JobSpec spec_{.job = 7,
                .secret = 0xfeedface,
                .shape = testing::SmallShape{.slots = 2, .block_size = 4, .blocks_per_chunk = 2}.of(3)};
  DatagramAggregator aggregator_;
  Outbox outbox_;
};

// Each job's workers are told once, with the next result. A result that is sent again says the same as the first time.
TEST_F(DatagramAggregatorTest, AResultSaysThatTheReceiveBufferOverflowed) {
  const auto codes = [](const std::vector<Sent>& sent) {
    std::vector<int> codes;
    for (const Sent& one : sent) {
      EXPECT_EQ(one.header.kind, wire::Kind::kResult);
      codes.push_back(one.header.code);
    }
    return codes;
  };
  const auto complete = [&](std::uint32_t epoch) {
    std::vector<Sent> sent;
    for (std::uint32_t worker = 0; worker < spec_.shape.workers(); ++worker) sent = update(worker, epoch);
    return codes(sent);
  };
  const std::vector<int> quiet(spec_.shape.workers(), 0), told(spec_.shape.workers(), wire::kOverflowed);
  EXPECT_EQ(complete(0), quiet);
  aggregator_.on_overflow();
  aggregator_.on_overflow();
  EXPECT_EQ(complete(1), told);
  EXPECT_EQ(codes(update(0, 1)), std::vector<int>{wire::kOverflowed});
  EXPECT_EQ(complete(2), quiet);
}

TEST_F(DatagramAggregatorTest, InOrder) {
  for (std::uint32_t epoch = 0; epoch < 5; ++epoch) {
    EXPECT_TRUE(update(0, epoch).empty());
    EXPECT_TRUE(update(2, epoch).empty());
    const std::vector<Sent> results = update(1, epoch);
    ASSERT_EQ(results.size(), 3u);
    for (std::uint8_t w = 0; w < 3; ++w) {
      EXPECT_EQ(results[w].to, address(w));
      EXPECT_EQ(results[w].header.kind, wire::Kind::kResult);
      EXPECT_EQ(results[w].header.epoch, epoch);
      EXPECT_EQ(results[w].header.fingerprint, 100 + epoch);
      EXPECT_EQ(results[w].words(), sum(epoch));
      EXPECT_EQ(results[w].bytes[wire::kHeaderSize], 52) << "the largest exponent";
    }
  }
}

TEST_F(DatagramAggregatorTest, DuplicateOfAnIncompletePassIsPending) {
  update(0, 0);
  const std::vector<Sent> replies = update(0, 0);
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_EQ(replies[0].to, address(0));
  EXPECT_EQ(replies[0].header.kind, wire::Kind::kPending);
  EXPECT_EQ(replies[0].bytes.back(), 0b001);
  update(2, 0);
  EXPECT_EQ(update(2, 0)[0].bytes.back(), 0b101);
  EXPECT_EQ(update(1, 0)[0].words(), sum(0));
}

TEST_F(DatagramAggregatorTest, DuplicateOfACompletePassGetsTheResultAgain) {
  for (std::uint32_t w = 0; w < 3; ++w) update(w, 0);
  update(0, 1);  // the slot's other version is in use
  const std::vector<Sent> again = update(1, 0);
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].to, address(1));
  EXPECT_EQ(again[0].words(), sum(0));
}

TEST_F(DatagramAggregatorTest, PastPassIsIgnored) {
  for (std::uint32_t epoch = 0; epoch < 3; ++epoch) {
    for (std::uint32_t w = 0; w < 3; ++w) update(w, epoch);
  }
  expect_rejected(testing::packet(header(1, 0), 10), Counter::kStale);
  EXPECT_EQ(update(1, 2)[0].words(), sum(2));
}

TEST_F(DatagramAggregatorTest, FuturePassIsRefused) {
  const std::vector<Sent> replies = update(0, 4);
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_EQ(replies[0].header.kind, wire::Kind::kRefused);
  EXPECT_EQ(replies[0].header.code, static_cast<std::uint8_t>(wire::Refusal::kAhead));
  EXPECT_EQ(rejected(Counter::kAhead), 1u);
}

TEST_F(DatagramAggregatorTest, DisagreementEndsTheJobForAllAndNamesBothWorkers) {
  update(2, 0);
  wire::Header other = header(0, 0);
  other.fingerprint = 1;
  const std::vector<Sent> replies = deliver(testing::packet(other, 0), 0);
  ASSERT_EQ(replies.size(), 2u);
  EXPECT_EQ(replies[0].to, address(2));
  EXPECT_EQ(replies[1].to, address(0));
  for (const Sent& reply : replies) {
    EXPECT_EQ(reply.header.kind, wire::Kind::kAbort);
    EXPECT_EQ(reply.header.code, static_cast<std::uint8_t>(ErrorCode::kMismatch));
    const std::string sentence(reply.bytes.begin() + wire::kHeaderSize, reply.bytes.end());
    EXPECT_NE(sentence.find("workers 2 and 0"), std::string::npos) << sentence;
  }
  EXPECT_EQ(update(1, 0)[0].header.kind, wire::Kind::kAbort) << "who comes later learns it too";
}

// SwitchML's Algorithm 3 fails here, as formal/check.py shows with the paper's version bit. A duplicate of worker 0's
// update for pass 0 comes when version 0 is in use for pass 2. It finds worker 0's bit cleared, sets it, and is added
// to pass 2. No packet is lost: one is sent twice (an early timeout), and the copy is overtaken.
TEST_F(DatagramAggregatorTest, LateDuplicateFromTwoReusesAgo) {
  for (std::uint32_t w = 0; w < 3; ++w) update(w, 0);
  for (std::uint32_t w = 0; w < 3; ++w) update(w, 1);  // clears the paper's bits of version 0
  EXPECT_TRUE(update(0, 0)[0].words() == sum(0)) << "pass 2 has not begun: the old result is still there";
  update(1, 2);
  expect_rejected(testing::packet(header(0, 0), 0), Counter::kStale);
  update(2, 2);
  expect_rejected(testing::packet(header(0, 0), 0), Counter::kStale);
  EXPECT_EQ(update(0, 2)[0].words(), sum(2));
}

TEST_F(DatagramAggregatorTest, ForgedPacketsChangeNothing) {
  update(0, 0);
  const wire::Header good = header(1, 0);
  const auto with = [&](auto change) {
    wire::Header forged = good;
    change(forged);
    return testing::packet(forged, 5);
  };
  expect_rejected(with([](auto& h) { h.secret ^= 1; }), Counter::kWrongSecret);
  expect_rejected(with([](auto& h) { h.job = 8; }), Counter::kUnknownJob);
  expect_rejected(with([](auto& h) { h.worker = 3; }), Counter::kBadWorker);
  expect_rejected(with([](auto& h) { h.slot = 2; }), Counter::kBadSlot);
  expect_rejected(with([](auto& h) { h.words = 9; }), Counter::kTooLarge);
  expect_rejected(with([](auto& h) { h.exponents = 3; }), Counter::kTooLarge);
  expect_rejected(with([](auto& h) { h.words = 1; }), Counter::kMismatch);
  expect_rejected(with([](auto& h) { h.epoch = 1; }), Counter::kAhead);
  expect_rejected(with([](auto& h) { h.epoch = static_cast<std::uint32_t>(-2); }), Counter::kStale);
  for (const auto kind : {wire::Kind::kResult, wire::Kind::kPending, wire::Kind::kRefused, wire::Kind::kAbort}) {
    expect_rejected(with([&](auto& h) { h.kind = kind; }), Counter::kNotAnUpdate);
  }
  Bytes damaged = testing::packet(good, 5);
  damaged[45] ^= 4;
  expect_rejected(damaged, Counter::kCorrupt);
  expect_rejected(Bytes(35), Counter::kTruncated);
  expect_rejected(Bytes(200), Counter::kForeign);
  Bytes longer = testing::packet(good, 5);
  longer.resize(longer.size() + 4);
  expect_rejected(longer, Counter::kBadLength);
  update(1, 0);
  EXPECT_EQ(update(2, 0)[0].words(), sum(0));
}

TEST_F(DatagramAggregatorTest, WrongSecretIsToldThatTheJobIsUnknown) {
  wire::Header stranger = header(0, 0);
  stranger.secret = 123;
  const std::vector<Sent> replies = deliver(testing::packet(stranger, 5), 4);
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_EQ(replies[0].header.code, static_cast<std::uint8_t>(wire::Refusal::kUnknownJob));
  EXPECT_EQ(replies[0].header.secret, 123u) << "the job's own secret is not given away";
}

TEST_F(DatagramAggregatorTest, ReplayFromElsewhereDoesNotDivertResults) {
  update(0, 0);
  deliver(testing::packet(header(0, 0), 0, 50), 66);  // from somebody who has overheard the packet
  update(1, 0);
  std::vector<Sent> results = update(2, 0);
  ASSERT_EQ(results.size(), 3u);
  EXPECT_EQ(results[0].to, address(0));
  deliver(testing::packet(header(0, 0), 0, 50), 66);
  update(0, 1);
  deliver(testing::packet(header(0, 0), 0, 50), 66);
  update(1, 1);
  EXPECT_EQ(update(2, 1)[0].to, address(0));
}

TEST_F(DatagramAggregatorTest, AbortedJobAnswersWithTheReason) {
  update(0, 0);
  aggregator_.abort(spec_.job, {ErrorCode::kWorkerLost, "worker 2 died"}, outbox_);
  std::vector<Sent> told = outbox_.take();
  ASSERT_EQ(told.size(), 1u) << "only worker 0 has been heard from";
  EXPECT_EQ(told[0].header.kind, wire::Kind::kAbort);
  EXPECT_EQ(told[0].header.code, static_cast<std::uint8_t>(ErrorCode::kWorkerLost));
  EXPECT_EQ(std::string(told[0].bytes.begin() + wire::kHeaderSize, told[0].bytes.end()), "worker 2 died");
  told = update(1, 0);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].to, address(1));
  EXPECT_EQ(told[0].header.kind, wire::Kind::kAbort);
}

// Python takes an error's message only if it is UTF-8.
TEST_F(DatagramAggregatorTest, AReasonIsTextWhereverItIsCut) {
  std::string reason = "x";
  for (int i = 0; i < 400; ++i) reason += "é";
  aggregator_.abort(spec_.job, {ErrorCode::kWorkerLost, reason}, outbox_);
  const Bytes told = update(0, 0).at(0).bytes;
  const std::string text(told.begin() + wire::kHeaderSize, told.end());
  EXPECT_EQ(text, reason.substr(0, kMaxReason - 1));
  EXPECT_EQ(as_utf8(text), text);
}

TEST(SwitchContactTest, AReasonFromTheNetworkBecomesText) {
  const std::uint8_t sentence[] = {'g', 'o', 'n', 'e', 0xC3};
  const Status status = SwitchContact("switch").abort(static_cast<std::uint8_t>(ErrorCode::kWorkerLost), sentence);
  EXPECT_EQ(status.code, ErrorCode::kWorkerLost);
  EXPECT_EQ(status.message, "gone?");
}

TEST_F(DatagramAggregatorTest, EarlierIncarnationIsRejected) {
  update(0, 0);
  const Bytes old = testing::packet(header(1, 0), 10);
  aggregator_.remove(spec_.job);
  spec_.secret = 0xdeadbeef;
  add();
  update(0, 0);
  expect_rejected(old, Counter::kWrongSecret);
  update(1, 0);
  EXPECT_EQ(update(2, 0)[0].words(), sum(0));
}

TEST_F(DatagramAggregatorTest, MissingNamesTheWorkersWaitedFor) {
  EXPECT_EQ(aggregator_.find(spec_.job)->missing(), WorkerSet{});
  update(1, 0);
  EXPECT_EQ(aggregator_.find(spec_.job)->missing(), WorkerSet{0b101});
}

TEST_F(DatagramAggregatorTest, AnIdInUseIsRefusedAndTheJobThatHasItGoesOn) {
  update(0, 0);
  EXPECT_FALSE(aggregator_.add(std::make_unique<DatagramJob>(spec_, Shard{})));
  update(1, 0);
  EXPECT_EQ(update(2, 0)[0].words(), sum(0));
}

TEST_F(DatagramAggregatorTest, RemovingGivesTheJobBackOnce) {
  const std::unique_ptr<DatagramJob> job = aggregator_.remove(spec_.job);
  ASSERT_TRUE(job);
  EXPECT_EQ(job->id(), spec_.job);
  EXPECT_FALSE(aggregator_.remove(spec_.job));
  EXPECT_EQ(aggregator_.find(spec_.job), nullptr);
}

// This shard has slots 0, 2 and 4 of the job; packets for the other slots belong to another shard.
TEST_F(DatagramAggregatorTest, AShardAnswersForItsOwnSlotsOnly) {
  JobSpec sharded = spec_;
  sharded.job = 8;
  sharded.shape = testing::SmallShape{.slots = 5, .block_size = 4, .blocks_per_chunk = 2}.of(1);
  ASSERT_TRUE(aggregator_.add(std::make_unique<DatagramJob>(sharded, Shard{.index = 0, .of = 2})));
  for (std::uint16_t slot = 0; slot < 5; ++slot) {
    wire::Header mine = header(0, 0);
    mine.job = 8;
    mine.slot = slot;
    const std::vector<Sent> results = deliver(testing::packet(mine, 5u + slot), 1);
    ASSERT_EQ(results.size(), slot % 2 == 0 ? 1u : 0u) << slot;
    if (slot % 2 == 0) {
      EXPECT_EQ(results[0].words(), (std::vector<std::uint32_t>{5u + slot, 6u + slot}));
    }
  }
  EXPECT_EQ(aggregator_.find(8)->counters()[Counter::kBadSlot], 2u);
}

TEST_F(DatagramAggregatorTest, PacketPathAllocatesNothing) {
  std::vector<Bytes> packets;
  for (std::uint32_t epoch = 0; epoch < 4; ++epoch) {
    for (std::uint32_t w = 0; w < 3; ++w) packets.push_back(testing::packet(header(w, epoch), w));
    packets.push_back(testing::packet(header(1, epoch), 1));
    wire::Header forged = header(1, epoch);
    forged.secret = 0;
    packets.push_back(testing::packet(forged, 1));
  }
  outbox_.keep = false;
  const std::uint64_t before = testing::allocations();
  for (const Bytes& bytes : packets) aggregator_.on_packet(bytes, address(1), outbox_);
  EXPECT_EQ(testing::allocations(), before);
  EXPECT_EQ(counters()[Counter::kResults], 4u);
}

TEST_F(DatagramAggregatorTest, AMillionForgedPacketsAreCountedByKind) {
  update(0, 0);
  std::mt19937_64 random(1);
  outbox_.keep = false;
  Counters expected;
  const auto count = [&](Counter reason) { ++expected[reason]; };
  Bytes bytes;
  for (int i = 0; i < 1'000'000; ++i) {
    wire::Header forged = header(static_cast<std::uint32_t>(random() % 3), static_cast<std::uint32_t>(random() % 3));
    switch (random() % 6) {
      case 0:
        forged.secret = random() | 1ull << 63;
        count(Counter::kWrongSecret);
        break;
      case 1:
        forged.job = 8 + static_cast<std::uint32_t>(random() % 1000);
        count(Counter::kUnknownJob);
        break;
      case 2:
        forged.worker = static_cast<std::uint16_t>(3 + random() % 1000);
        count(Counter::kBadWorker);
        break;
      case 3:
        forged.slot = static_cast<std::uint16_t>(2 + random() % 1000);
        count(Counter::kBadSlot);
        break;
      case 4:
        forged.words = 9;
        count(Counter::kTooLarge);
        break;
      case 5:
        forged.kind = wire::Kind::kResult;
        count(Counter::kNotAnUpdate);
        break;
    }
    bytes = testing::packet(forged, static_cast<std::uint32_t>(random()));
    aggregator_.on_packet(bytes, address(77), outbox_);
  }
  expected.for_each([&](Counter reason, std::uint64_t times) {
    if (is_reject(reason)) {
      EXPECT_EQ(rejected(reason), times) << to_string(reason);
    }
  });
  outbox_.keep = true;
  update(1, 0);
  EXPECT_EQ(update(2, 0)[0].words(), sum(0));
}

}  // namespace
}  // namespace jaxina
