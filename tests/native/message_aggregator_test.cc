// Tests the aggregators behind RDMA messages, packet by packet: to whom results and notices go, the numbers of queue
// pairs, and the buffers in which messages are reassembled.
#include "rdma_engine/messages/message_aggregator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "tests/native/allocations.h"
#include "tests/native/small_shape.h"

namespace jaxina {
namespace {

using roce::MessageLayout;
using roce::Opcode;
using Bytes = std::vector<std::uint8_t>;
using Connection = MessageJob::Connection;

constexpr std::size_t kMtu = 256;
constexpr std::uint32_t kRkey = 0x5eed;

struct Sent {
  Address peer;
  std::uint32_t qpn, rkey, immediate, psn;
  std::uint64_t address;
  Bytes bytes;
};

struct Outbox final : MessageAggregator::Output {
  void send(const roce::Write& write, std::size_t mtu, std::uint32_t& psn) override {
    EXPECT_EQ(mtu, kMtu);
    const std::uint32_t first = psn++;
    if (!keep) return;
    sent.push_back({write.peer, write.qpn, write.rkey, write.immediate, first, write.address,
                    Bytes(write.head.begin(), write.head.end())});
    sent.back().bytes.insert(sent.back().bytes.end(), write.tail.begin(), write.tail.end());
  }
  std::vector<Sent> take() { return std::exchange(sent, {}); }
  std::vector<Sent> sent;
  bool keep = true;
};

Address address(std::uint8_t host) {
  Address result;
  result.bytes[0] = host;
  result.size = 1;
  return result;
}

bool same_host(const Address& a, const Address& b) { return a.bytes[0] == b.bytes[0]; }

class MessageAggregatorTest : public ::testing::Test {
 protected:
  // A job of whole chunks. Its messages carry no check, so the test can write them by hand.
  static JobSpec spec_of(std::uint32_t job, std::uint32_t workers = 2, std::uint32_t slots = 3) {
    return {
        .job = job,
        .secret = 0xfeed,
        .shape = testing::SmallShape{.slots = slots, .block_size = 128, .blocks_per_chunk = 2, .whole_chunks = true}.of(
            workers)};
  }
  void add(const JobSpec& spec) { ASSERT_TRUE(aggregators_.add(std::make_unique<MessageJob>(spec, kRkey))); }

  // Connects a worker and returns the first number of its queue pairs.
  std::uint32_t connect(const JobSpec& spec, std::uint32_t worker, std::unique_ptr<Connection>* old = nullptr) {
    const MessageLayout layout(spec.shape);
    auto connection = std::make_unique<Connection>();
    connection->worker = worker;
    connection->peer = address(static_cast<std::uint8_t>(10 + worker));
    connection->mtu = kMtu;
    connection->remote.rkey = 1000 + worker;
    connection->remote.memory = 0x10000000;
    for (std::uint32_t i = 0; i < layout.queues(); ++i) connection->remote.qpns.push_back(100 * (worker + 1) + i);
    connection->queues.resize(layout.queues());
    const Connection& made = *connection;
    std::unique_ptr<Connection> was = aggregators_.connect(spec.job, std::move(connection));
    if (old != nullptr) *old = std::move(was);
    return made.first_qpn;
  }

  void packet(const roce::Headers& headers, std::span<const std::uint8_t> payload) {
    aggregators_.on_packet({headers, payload, 0}, outbox_);
  }
  // Sends a pass of slot `slot` as a message to these queue pairs. Its last `missing` packets are lost.
  void write(std::uint32_t first_qpn, std::uint16_t slot, std::uint32_t epoch, std::uint32_t fingerprint,
             const Bytes& message, std::uint8_t exponents, std::size_t missing = 0) {
    const std::size_t packets = std::max<std::size_t>(1, (message.size() + kMtu - 1) / kMtu);
    for (std::size_t i = 0; i + missing < packets; ++i) {
      const bool first = i == 0, last = i + 1 == packets;
      const Opcode begin = last ? Opcode::kWriteOnlyImm : Opcode::kWriteFirst;
      const Opcode follow = last ? Opcode::kWriteLastImm : Opcode::kWriteMiddle;
      packet({.opcode = first ? begin : follow,
              .qpn = first_qpn + slot,
              .psn = static_cast<std::uint32_t>(i),
              .address = roce::address_of({epoch, slot, exponents}),
              .rkey = kRkey,
              .length = static_cast<std::uint32_t>(message.size()),
              .immediate = fingerprint},
             std::span(message).subspan(i * kMtu, std::min(kMtu, message.size() - i * kMtu)));
    }
  }
  // Returns a message of one word and one exponent.
  static Bytes small(std::uint8_t value, std::uint8_t exponent) { return {0, 0, 0, value, exponent, 0, 0, 0}; }
  const Counters& counters(std::uint32_t job) { return aggregators_.find(job)->aggregator().counters(); }

  MessageAggregator aggregators_{0x1000};
  Outbox outbox_;
};

TEST_F(MessageAggregatorTest, AResultIsWrittenIntoTheMemoryOfEveryWorkerThatIsConnected) {
  const JobSpec spec = spec_of(7);
  add(spec);
  const std::uint32_t first = connect(spec, 0), second = connect(spec, 1);
  write(first, 2, 0, 0xf0, small(5, 9), 1);
  EXPECT_TRUE(outbox_.take().empty());
  write(second, 2, 0, 0xf0, small(6, 4), 1);
  const std::vector<Sent> sent = outbox_.take();
  ASSERT_EQ(sent.size(), 2u);
  const MessageLayout layout(spec.shape);
  for (std::uint32_t w = 0; w < 2; ++w) {
    EXPECT_EQ(sent[w].peer, address(static_cast<std::uint8_t>(10 + w)));
    EXPECT_EQ(sent[w].qpn, 100 * (w + 1) + 2);
    EXPECT_EQ(sent[w].rkey, 1000 + w);
    EXPECT_EQ(sent[w].immediate, 0xf0u);
    EXPECT_EQ(sent[w].address, 0x10000000 + layout.result_place(2, 0));
    EXPECT_EQ(sent[w].bytes, small(11, 9));
  }
  write(second, 2, 0, 0xf0, small(6, 4), 1);  // only the worker that asks gets the result again
  const std::vector<Sent> again = outbox_.take();
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].qpn, 202u);
  EXPECT_EQ(again[0].bytes, small(11, 9));
  EXPECT_EQ(again[0].psn, sent[1].psn + 1);
}

TEST_F(MessageAggregatorTest, NoticesGoToTheirOwnQueuePairAndPlace) {
  const JobSpec spec = spec_of(7);
  add(spec);
  const std::uint32_t first = connect(spec, 0);
  connect(spec, 1);
  const MessageLayout layout(spec.shape);
  write(first, 1, 0, 5, small(5, 9), 1);
  write(first, 1, 0, 5, small(5, 9), 1);
  std::vector<Sent> sent = outbox_.take();
  wire::Header header;
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].qpn, 100 + layout.notices());
  EXPECT_EQ(sent[0].address, 0x10000000 + layout.notice_place(1));
  EXPECT_EQ(sent[0].immediate, 1u);
  ASSERT_EQ(wire::parse(sent[0].bytes, header), wire::ParseResult::kOk);
  EXPECT_EQ(header.kind, wire::Kind::kPending);
  EXPECT_EQ(sent[0].bytes.back(), 0b01);

  write(first, 0, 6, 5, small(5, 9), 1);
  sent = outbox_.take();
  ASSERT_EQ(sent.size(), 1u);
  ASSERT_EQ(wire::parse(sent[0].bytes, header), wire::ParseResult::kOk);
  EXPECT_EQ(header.kind, wire::Kind::kRefused);
  EXPECT_EQ(header.code, static_cast<std::uint8_t>(wire::Refusal::kAhead));
}

TEST_F(MessageAggregatorTest, AMismatchTellsEveryConnectedWorkerOnce) {
  const JobSpec spec = spec_of(7, 4);
  add(spec);
  const std::uint32_t first = connect(spec, 0), second = connect(spec, 1);
  connect(spec, 3);
  write(first, 0, 0, 5, small(5, 9), 1);
  write(second, 0, 0, 6, small(5, 9), 1);
  std::vector<Sent> sent = outbox_.take();
  ASSERT_EQ(sent.size(), 3u);
  std::set<std::uint32_t> told;
  for (const Sent& notice : sent) {
    wire::Header header;
    ASSERT_EQ(wire::parse(notice.bytes, header), wire::ParseResult::kOk);
    EXPECT_EQ(header.kind, wire::Kind::kAbort);
    EXPECT_EQ(header.code, static_cast<std::uint8_t>(ErrorCode::kMismatch));
    EXPECT_EQ(notice.immediate, MessageLayout::kLastNotice);
    told.insert(notice.rkey - 1000);
  }
  EXPECT_EQ(told, (std::set<std::uint32_t>{0, 1, 3}));
  write(first, 0, 0, 5, small(5, 9), 1);  // a worker that goes on is told again
  EXPECT_EQ(outbox_.take().size(), 1u);
  aggregators_.abort(spec.job, {ErrorCode::kWorkerLost, "later"}, outbox_);
  EXPECT_TRUE(outbox_.take().empty()) << "the first reason stands";
}

TEST_F(MessageAggregatorTest, AnAbortTellsAllConnectedWorkers) {
  const JobSpec spec = spec_of(7);
  add(spec);
  connect(spec, 1);
  aggregators_.abort(spec.job, {ErrorCode::kWorkerLost, "worker 0 died"}, outbox_);
  const std::vector<Sent> sent = outbox_.take();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(std::string(sent[0].bytes.begin() + wire::kHeaderSize, sent[0].bytes.end()), "worker 0 died");
}

TEST_F(MessageAggregatorTest, OnlyTheConnectedHostReachesAQueuePair) {
  const JobSpec spec = spec_of(7);
  add(spec);
  const std::uint32_t first = connect(spec, 1);
  const auto queues = static_cast<std::uint32_t>(MessageLayout(spec.shape).queues());
  for (std::uint32_t i = 0; i < queues; ++i) EXPECT_TRUE(aggregators_.knows(first + i, address(11), same_host));
  EXPECT_FALSE(aggregators_.knows(first, address(12), same_host));
  EXPECT_FALSE(aggregators_.knows(first - 1, address(11), same_host));
  EXPECT_FALSE(aggregators_.knows(first + queues, address(11), same_host));
  EXPECT_EQ(aggregators_.without_job()[Counter::kRdmaUnknownQueuePair], 3u);
}

TEST_F(MessageAggregatorTest, AReplacedConnectionIsGivenBackAndItsNumbersAreUnknown) {
  const JobSpec spec = spec_of(7);
  add(spec);
  const std::uint32_t before = connect(spec, 0);
  write(before, 0, 0, 5, small(5, 9), 1);  // so that this is the connection that packets came for last
  std::unique_ptr<Connection> old;
  const std::uint32_t after = connect(spec, 0, &old);
  ASSERT_TRUE(old);
  EXPECT_EQ(old->first_qpn, before);
  EXPECT_NE(after, before);
  write(before, 1, 0, 5, small(5, 9), 1);  // the old connection still exists, but nothing may lead to it any more
  old.reset();
  EXPECT_EQ(aggregators_.without_job()[Counter::kRdmaUnknownQueuePair], 1u);
  EXPECT_EQ(counters(7)[Counter::kUpdates], 1u);
  write(after, 0, 0, 5, small(5, 9), 1);
  EXPECT_EQ(outbox_.take().back().bytes[wire::kHeaderSize], 0b01) << "what was counted stays counted";
}

TEST_F(MessageAggregatorTest, ARemovedJobTakesItsConnectionsAlong) {
  const JobSpec gone = spec_of(7), stays = spec_of(8);
  add(gone);
  add(stays);
  const std::uint32_t first = connect(gone, 0), other = connect(stays, 0);
  write(first, 0, 0, 5, Bytes(3 * kMtu), 0, 1);  // so that a message is under way, and this connection is the latest
  std::unique_ptr<MessageJob> job = aggregators_.remove(gone.job);
  ASSERT_TRUE(job);
  EXPECT_EQ(job->connections()[0]->first_qpn, first);
  EXPECT_EQ(aggregators_.find(gone.job), nullptr);
  EXPECT_EQ(aggregators_.remove(gone.job), nullptr);
  write(first, 0, 0, 5, small(5, 9), 1);
  EXPECT_EQ(aggregators_.without_job()[Counter::kRdmaUnknownQueuePair], 1u);
  EXPECT_EQ(job->aggregator().counters()[Counter::kUpdates], 0u);
  job.reset();
  write(other, 0, 0, 5, small(5, 9), 1);
  EXPECT_EQ(counters(8)[Counter::kUpdates], 1u);
}

TEST_F(MessageAggregatorTest, ConnectingWithoutAJobIsRefused) {
  try {
    connect(spec_of(7), 0);
    FAIL() << "connected to nothing";
  } catch (const Error& error) {
    EXPECT_EQ(error.status().code, ErrorCode::kJobRejected) << error.what();
  }
  add(spec_of(7));
  EXPECT_FALSE(aggregators_.add(std::make_unique<MessageJob>(spec_of(7), kRkey)));
}

// A worker begins messages on all its queue pairs and then connects anew, again and again. There are only as many
// buffers as queue pairs, so an assertion stops the process if a buffer is not given back.
TEST_F(MessageAggregatorTest, BuffersAreGivenBackWhenAMessageEndsOrItsConnectionGoes) {
  const JobSpec spec = spec_of(7, 1, 3);
  add(spec);
  for (int times = 0; times < 20; ++times) {
    const std::uint32_t first = connect(spec, 0);
    for (std::uint16_t slot = 0; slot < 3; ++slot) write(first, slot, 9, 5, Bytes(3 * kMtu), 0, 1 + slot % 2);
    for (std::uint16_t slot = 0; slot < 3; ++slot) write(first, slot, 9, 5, Bytes(3 * kMtu), 0);
    for (std::uint16_t slot = 0; slot < 3; ++slot) write(first, slot, 9, 5, Bytes(3 * kMtu), 0, 2);
  }
  EXPECT_EQ(counters(7)[Counter::kAhead], 20u * 3);
}

// The first number of a connection, and the number after its last.
using Range = std::pair<std::uint32_t, std::uint32_t>;

bool overlap(std::vector<Range> ranges) {
  std::sort(ranges.begin(), ranges.end());
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i - 1].second > ranges[i].first) return true;
  }
  return false;
}

TEST_F(MessageAggregatorTest, NumbersWrapWithoutMeetingALiveConnection) {
  const JobSpec small_one = spec_of(1, 1, 7), other = spec_of(2, 1, 7), large = spec_of(3, 1, kMaxSlots);
  aggregators_ = MessageAggregator(0xffffff - 10);
  for (const JobSpec& spec : {small_one, other}) add(spec);
  const std::uint32_t before = connect(small_one, 0);
  EXPECT_EQ(before, 0xffffff - 10u) << "eight fit before the number that is multicast's";
  const std::uint32_t wrapped = connect(other, 0);
  EXPECT_EQ(wrapped, 2u) << "0 and 1 are reserved";
  // Goes once through all numbers, with 256 connections of 65,536 numbers each.
  add(spec_of(3, 1, 1));
  MessageAggregator& all = aggregators_;
  const auto reconnect = [&] {
    auto connection = std::make_unique<Connection>();
    connection->queues.resize(MessageLayout(large.shape).queues());
    const Connection& made = *connection;
    all.connect(3, std::move(connection));
    return Range(made.first_qpn, made.first_qpn + made.queues.size());
  };
  std::uint32_t rounds = 0;
  for (std::uint32_t last = 0; rounds < 2;) {
    const auto range = reconnect();
    if (range.first < last) ++rounds;
    last = range.first;
    ASSERT_GE(range.first, 2u);
    ASSERT_LE(range.second, roce::kMask24);
    ASSERT_FALSE(overlap({{before, before + 8}, {wrapped, wrapped + 8}, range}));
  }
  // The old connections must still answer.
  write(before, 0, 0, 5, small(5, 9), 1);
  write(wrapped, 0, 0, 5, small(6, 9), 1);
  EXPECT_EQ(counters(1)[Counter::kResults], 1u);
  EXPECT_EQ(counters(2)[Counter::kResults], 1u);
}

TEST_F(MessageAggregatorTest, ReservedFirstNumbersAreNotGivenOut) {
  for (const std::uint32_t first : {0u, 1u, 0xff000000u, 0xffffffu, 0xffffffffu}) {
    MessageAggregator aggregators(first);
    ASSERT_TRUE(aggregators.add(std::make_unique<MessageJob>(spec_of(1), kRkey)));
    auto connection = std::make_unique<Connection>();
    connection->queues.resize(4);
    const Connection& made = *connection;
    aggregators.connect(1, std::move(connection));
    EXPECT_EQ(made.first_qpn, 2u) << first;
  }
}

TEST_F(MessageAggregatorTest, PacketPathAllocatesNothing) {
  const JobSpec spec = spec_of(7, 1);
  add(spec);
  const std::uint32_t first = connect(spec, 0);
  outbox_.keep = false;
  const Bytes message(3 * kMtu), exponents = small(1, 1);
  const std::uint64_t before = testing::allocations();
  for (std::uint32_t epoch = 0; epoch < 20; ++epoch) {
    write(first, 0, epoch, 5, message, 0, 1);  // its last packet is lost
    write(first, 0, epoch, 5, message, 0);
    write(first, 0, epoch, 5, message, 0);
    write(first, 0, epoch + 9, 5, message, 0);
    write(first, 1, epoch, 5, exponents, 1);
    write(first + 100, 0, epoch, 5, exponents, 1);
  }
  EXPECT_EQ(testing::allocations(), before);
  EXPECT_EQ(counters(7)[Counter::kResults], 40u);
}

TEST(ReassemblyBuffers, AreAsManyAsRequestedAndDoNotOverlap) {
  for (const std::size_t bytes : {1u, 64u, 65u, 1000u}) {
    constexpr std::size_t kCount = 9;
    roce::ReassemblyBuffers buffers(kCount, bytes);
    std::vector<std::uint8_t*> taken;
    for (std::size_t i = 0; i < kCount; ++i) {
      taken.push_back(buffers.take());
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(taken.back()) % 4, 0u) << "for words";
      std::fill_n(taken.back(), bytes, static_cast<std::uint8_t>(i));
    }
    for (std::size_t i = 0; i < kCount; ++i) {
      EXPECT_EQ(Bytes(taken[i], taken[i] + bytes), Bytes(bytes, static_cast<std::uint8_t>(i)));
    }
    EXPECT_DEATH(buffers.take(), "free_");
    for (std::uint8_t* buffer : taken) buffers.give_back(buffer);
    std::set<std::uint8_t*> again;
    for (std::size_t i = 0; i < kCount; ++i) again.insert(buffers.take());
    EXPECT_EQ(again, std::set<std::uint8_t*>(taken.begin(), taken.end()));
    EXPECT_GE(roce::ReassemblyBuffers::bytes_for(kCount, bytes), kCount * bytes);
  }
}

// While messages come one after the other, one buffer serves them all, and the system gives no memory for the others.
TEST(ReassemblyBuffers, TheOneGivenBackLastIsTakenFirst) {
  roce::ReassemblyBuffers buffers(1000, 64);
  std::uint8_t* const first = buffers.take();
  std::uint8_t* const second = buffers.take();
  buffers.give_back(second);
  buffers.give_back(first);
  for (int i = 0; i < 100; ++i) {
    std::uint8_t* const buffer = buffers.take();
    EXPECT_EQ(buffer, first);
    buffers.give_back(buffer);
  }
}

}  // namespace
}  // namespace jaxina
