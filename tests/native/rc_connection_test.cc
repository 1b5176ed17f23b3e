// Tests a reliable connection as a whole, over networks that do everything wrong: every message arrives once, in order
// and intact, or completes with an error.
#include <gtest/gtest.h>

#include "tests/native/rc_peer.h"
#include "tests/native/test_seed.h"

namespace jaxina::rc {
namespace {

const std::uint64_t kSeed = jaxina::testing::test_seed();

// Message m has immediate m, and its bytes follow from m.
Bytes message(std::uint32_t number, std::mt19937_64& random) {
  Bytes bytes(random() % 4 == 0 ? random() % 4 : random() % 80);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(number * 7 + i);
  return bytes;
}

struct Exchange {
  std::uint32_t messages = 0, arrived = 0, succeeded = 0, failed = 0;
  std::uint64_t retransmissions = 0;
  bool crossed_wrap = false;
};

// One direction of a connection: a requester, a responder, and both wires between them. `broken` says that from some
// moment on nothing arrives.
Exchange run(std::uint64_t seed, const Faults& faults, std::optional<std::uint8_t> retries, bool broken) {
  std::mt19937_64 random(seed);
  const std::uint32_t first = random() % 2 ? static_cast<std::uint32_t>(random()) & roce::kMask24
                                           : roce::kMask24 - static_cast<std::uint32_t>(random() % 50);
  Requester requester({.remote_qpn = 9,
                       .first_psn = first,
                       .mtu = 16,
                       .timeout = 5,
                       .retries = retries,
                       .window = 1 + static_cast<std::uint32_t>(random() % 20),
                       .queue = 8});
  Receiver receiver({.remote_qpn = 4, .first_psn = first, .mtu = 16, .rnr_timer = 1}, 128);
  FaultyWire there(faults, random), back(faults, random);
  Exchange result;
  result.messages = 20 + static_cast<std::uint32_t>(random() % 60);
  std::vector<Bytes> payloads;
  for (std::uint32_t m = 0; m < result.messages; ++m) payloads.push_back(message(m, random));
  const std::uint32_t breaks_at = broken ? static_cast<std::uint32_t>(random() % result.messages) : result.messages + 1;

  std::uint32_t posted = 0;
  Nanoseconds now = 0;
  for (int step = 0; result.succeeded + result.failed < result.messages; ++step) {
    if (step >= 500'000) {
      ADD_FAILURE() << "seed " << seed << ": no end";
      return result;
    }
    while (posted < result.messages && requester.post({.id = posted,
                                                       .write = {.peer = {},
                                                                 .qpn = 0,
                                                                 .rkey = kKey,
                                                                 .address = kMemoryAt,
                                                                 .immediate = posted,
                                                                 .head = payloads[posted],
                                                                 .tail = {}}})) {
      ++posted;
    }
    while (const auto packet = requester.next_packet(now)) {
      if (result.arrived < breaks_at) there.send(bytes_of(*packet), now);
    }
    while (const auto completion = requester.pop_completion()) {
      EXPECT_EQ(completion->id, result.succeeded + result.failed) << "seed " << seed;
      if (completion->status == CompletionStatus::kSuccess) {
        EXPECT_EQ(result.failed, 0u);
        ++result.succeeded;
        EXPECT_LE(result.succeeded, result.arrived) << "seed " << seed << ": completed before it has arrived";
      } else {
        ++result.failed;
      }
    }
    if (random() % 3 == 0) receiver.responder().post_receives(random() % 4);

    std::optional<Nanoseconds> next = requester.next_deadline();
    for (const FaultyWire* wire : {&there, &back}) {
      if (wire->next_arrival() && (!next || *wire->next_arrival() < *next)) next = wire->next_arrival();
    }
    if (!next) continue;
    now = std::max(now, *next);
    roce::Packet packet;
    if (there.next_arrival() == now) {
      const Bytes bytes = there.arrive();
      if (is_intact(bytes, packet) && receiver.take(packet)) {
        const std::uint32_t number = receiver.responder().message().immediate;
        EXPECT_EQ(number, result.arrived) << "seed " << seed << ": out of order, or twice";
        ++result.arrived;
        if (number < payloads.size()) {
          EXPECT_EQ(receiver.responder().message().length, payloads[number].size());
          EXPECT_TRUE(std::equal(payloads[number].begin(), payloads[number].end(), receiver.memory().begin()))
              << "seed " << seed << ": damaged";
        }
      }
      while (const auto answer = receiver.responder().take_answer()) back.send(bytes_of(*answer), now);
    } else if (back.next_arrival() == now) {
      const Bytes bytes = back.arrive();
      if (is_intact(bytes, packet)) requester.on_answer(packet.headers, now);
    }
    requester.on_tick(now);
    EXPECT_LE(requester.acknowledged(), receiver.responder().received()) << "seed " << seed;
  }
  result.retransmissions = requester.retransmissions();
  result.crossed_wrap = first + requester.sent() > roce::kMask24;
  return result;
}

TEST(RcConnection, WithoutALimitOfRetriesEverythingArrivesOnceAndInOrder) {
  std::uint64_t retransmissions = 0, wraps = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    std::mt19937_64 random(seed);
    const auto share = [&](double most) { return std::uniform_real_distribution<>(0, most)(random); };
    const Faults faults{.loss = share(0.3), .duplication = share(0.3), .reordering = share(0.3), .damage = share(0.1)};
    const Exchange result = run(kSeed + seed, faults, std::nullopt, false);
    EXPECT_EQ(result.arrived, result.messages);
    EXPECT_EQ(result.succeeded, result.messages);
    retransmissions += result.retransmissions;
    wraps += result.crossed_wrap;
    if (::testing::Test::HasFailure()) break;
  }
  EXPECT_GT(retransmissions, 10'000u);  // the seeds reach what they are meant for
  EXPECT_GT(wraps, 50u);
}

TEST(RcConnection, WhenTheOtherSideFallsSilentAllThatIsLeftCompletesWithAnError) {
  std::uint32_t failed = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const Exchange result = run(kSeed + seed, {.loss = 0.05, .duplication = 0.1, .reordering = 0.1}, 7, true);
    EXPECT_EQ(result.succeeded + result.failed, result.messages);
    EXPECT_GE(result.arrived, result.succeeded);
    failed += result.failed;
    if (::testing::Test::HasFailure()) break;
  }
  EXPECT_GT(failed, 1'000u);
}

TEST(RcConnection, WithoutFaultsNothingIsSentTwice) {
  Receiver ready({.remote_qpn = 4, .first_psn = 3, .mtu = 16}, 128);
  ready.responder().post_receives(100);
  Requester requester({.remote_qpn = 9, .first_psn = 3, .mtu = 16, .queue = 100});
  const Bytes payload(70, 1);
  for (std::uint64_t m = 0; m < 100; ++m) {
    ASSERT_TRUE(requester.post(
        {.id = m,
         .write = {
             .peer = {}, .qpn = 0, .rkey = kKey, .address = kMemoryAt, .immediate = 0, .head = payload, .tail = {}}}));
  }
  int answers = 0;
  while (const auto packet = requester.next_packet(0)) {
    const Bytes bytes = bytes_of(*packet);
    roce::Packet parsed;
    ASSERT_TRUE(is_intact(bytes, parsed));
    ready.take(parsed);
    if (const auto answer = ready.responder().take_answer()) ++answers, requester.on_answer(*answer, 0);
  }
  EXPECT_EQ(requester.acknowledged(), 500u);
  EXPECT_EQ(requester.retransmissions(), 0u);
  EXPECT_EQ(answers, 100);  // one per message of five packets
}

}  // namespace
}  // namespace jaxina::rc
