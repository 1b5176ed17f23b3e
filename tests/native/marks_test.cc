// Tests marks: which packets a switch marks, what it does with marks that come, and what a server repeats.
#include <algorithm>
#include <random>

#include "tests/native/combiner_fixture.h"

namespace jaxina {
namespace {

using namespace testing;

constexpr std::uint8_t kAgain = static_cast<std::uint8_t>(Transmission::kAgain);

class MarkTest : public CombinerTest {
 protected:
  explicit MarkTest(const PhantomQueueOptions& queues = {}) : CombinerTest(8, 0, queues) {}

  std::vector<Sent> marked_update(std::uint16_t worker, std::uint32_t epoch) {
    wire::Header marked = header(worker, epoch);
    marked.code |= wire::kMarked;
    return deliver(testing::packet(marked, 10u * worker), static_cast<std::uint8_t>(worker));
  }
};

TEST_F(MarkTest, ASumHasTheMarkOfAnyOfItsPackets) {
  for (std::uint16_t one : {0, 1, 2}) {
    std::vector<Sent> sent;
    for (std::uint16_t worker = 0; worker < kWorkers; ++worker) {
      sent = worker == one ? marked_update(worker, one) : from_worker(worker, one);
    }
    ASSERT_EQ(sent.size(), 1u);
    EXPECT_EQ(sent[0].header.code, wire::kMarked) << one;
    deliver(result(one), kOtherServer);
  }
  EXPECT_EQ(counted(Counter::kMarked), 0u) << "the switch has set none of them";
}

TEST_F(MarkTest, TheNextOwnerOfAnEntryDoesNotInheritItsMark) {
  for (std::uint16_t worker = 0; worker < kWorkers; ++worker) marked_update(worker, 0);
  EXPECT_EQ(from_worker(0, 0, Transmission::kAgain)[0].header.code, kAgain | wire::kMarked);
  deliver(result(0), kOtherServer);
  std::vector<Sent> sent;
  for (std::uint16_t worker = 0; worker < kWorkers; ++worker) sent = from_worker(worker, 1);
  EXPECT_EQ(sent[0].header.code, 0);
  // Nor if the entry was taken after its lifetime.
  marked_update(0, 2);
  for (std::uint16_t worker = 0; worker < kWorkers; ++worker) {
    sent = from_worker(worker, 3, Transmission::kFirst, 2 * kLifetime);
  }
  EXPECT_EQ(sent[0].header.code, 0);
}

TEST_F(MarkTest, AMarkDoesNotChangeWhatAnUpdateMayDo) {
  wire::Header again = header(0, 0, Transmission::kAgain);
  again.code |= wire::kMarked;
  expect_sent_on(deliver(testing::packet(again, 1), 0), testing::packet(again, 1));
  EXPECT_EQ(combiner_.entries_held(0), 0u);
}

// Ports that send a packet of two words in 50 ns. From the fourth packet at once on, packets are marked.
class SlowPorts : public MarkTest {
 protected:
  SlowPorts() : MarkTest({.bytes_per_second = 1e9, .bytes_per_packet = 2, .drain = 1, .threshold = 100}) {}
  static constexpr std::uint8_t kUncombined = static_cast<std::uint8_t>(Transmission::kUncombined);
  std::uint8_t code_of_uncombined(Nanoseconds now) {
    return from_worker(0, 0, Transmission::kUncombined, now).at(0).header.code;
  }
};

TEST_F(SlowPorts, WhatFollowsAFewPacketsAtOnceIsMarkedUntilThePortHasSentThem) {
  for (int packet = 0; packet < 3; ++packet) EXPECT_EQ(code_of_uncombined(0), kUncombined) << packet;
  EXPECT_EQ(code_of_uncombined(0), kUncombined | wire::kMarked);
  EXPECT_EQ(code_of_uncombined(99), kUncombined | wire::kMarked);  // 101 and then 151 ns are left
  EXPECT_EQ(code_of_uncombined(151), kUncombined);
  EXPECT_EQ(counted(Counter::kMarked), 2u);
}

TEST_F(SlowPorts, AMarkedCopyIsThePacketWithAnotherCode) {
  for (int packet = 0; packet < 3; ++packet) from_worker(0, 0, Transmission::kUncombined);
  const Bytes update = this->update(0, 0, Transmission::kUncombined);
  const Sent sent = deliver(update, 0).at(0);
  EXPECT_EQ(sent.bytes.size(), update.size());
  EXPECT_TRUE(std::equal(sent.bytes.begin() + wire::kHeaderSize, sent.bytes.end(), update.begin() + wire::kHeaderSize));
  EXPECT_EQ(sent.header.fingerprint, 100u);
}

TEST_F(SlowPorts, AResultIsMarkedForAllIfOnePortHasAQueue) {
  for (std::uint16_t worker = 0; worker < kWorkers; ++worker) from_worker(worker, 0);
  wire::Header pending = header(1, 0);
  pending.kind = wire::Kind::kPending;
  for (int notice = 0; notice < 3; ++notice) deliver(testing::packet(pending, 0), kOtherServer);  // all to worker 1
  const std::vector<Sent> sent = deliver(result(0), kOtherServer);
  ASSERT_EQ(sent.size(), kWorkers);
  for (const Sent& one : sent) EXPECT_EQ(one.header.code, wire::kMarked);
  EXPECT_EQ(deliver(result(0), kOtherServer, 1'000)[0].header.code, 0);
}

TEST(PhantomQueues, AddressesThatAreMadeUpCostNoMemoryAndTakeNoPlace) {
  PhantomQueues queues({.bytes_per_second = 1e9, .drain = 1, .threshold = 100}, own_port);
  std::mt19937 random(1);
  Nanoseconds now = 0;
  for (int i = 0; i < 100'000; ++i) {
    Address made_up = address(0);
    for (std::uint8_t& byte : made_up.bytes) byte = static_cast<std::uint8_t>(random());
    queues.on_sent(made_up, 10, now += 10);
  }
  for (int i = 0; i < 3; ++i) queues.on_sent(address(1), 51, now);
  EXPECT_TRUE(queues.is_over(address(1), now));
  EXPECT_FALSE(queues.is_over(address(2), now));
  EXPECT_FALSE(queues.is_over(address(1), now + 60));
}

TEST_F(ServerTest, RepeatsAMarkInTheNextResultOnly) {
  deliver(0, 1, 0, wire::kMarked);
  deliver(1, 1, 1);
  EXPECT_EQ(deliver(2, 1, 2)[0].header.code, wire::kMarked);
  EXPECT_EQ(deliver(2, 1, 2)[0].header.code, wire::kMarked) << "the same result again";
  epoch_ = 1;
  EXPECT_EQ(deliver(kAll, 1, kSwitch)[0].header.code, 0);
  epoch_ = 2;
  EXPECT_EQ(deliver(kAll, 1, kSwitch, wire::kMarked)[0].header.code, wire::kMarked);
}

TEST_F(ServerTest, AMarkOfSomebodyElseChangesNothing) {
  deliver(kAll, 1, kStranger, wire::kMarked);
  EXPECT_EQ(deliver(kAll, 1, kSwitch)[0].header.code, 0);
}

}  // namespace
}  // namespace jaxina
