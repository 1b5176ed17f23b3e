// Tests the aggregator alone: updates in, answers out. datagram_aggregator_test.cc and message_aggregator_test.cc test
// its packets.
#include "rdma_engine/aggregator/aggregator.h"

#include <gtest/gtest.h>

#include <bit>
#include <vector>

#include "tests/native/allocations.h"
#include "tests/native/small_shape.h"

namespace jaxina {
namespace {

using testing::SmallShape;
using Words = std::vector<std::uint32_t>;
using Exponents = std::vector<std::uint8_t>;

constexpr std::uint32_t kWorkers = 3;

std::uint32_t big_endian(std::uint32_t word) {
  return std::endian::native == std::endian::little ? __builtin_bswap32(word) : word;
}

// A contribution that owns its words and exponents.
struct Contribution {
  std::uint32_t worker = 0, slot = 0, epoch = 0, fingerprint = 0;
  Words words;  // host order
  Exponents exponents;
};

Words host_order(std::span<const std::uint32_t> words) {
  Words result;
  for (const std::uint32_t word : words) result.push_back(big_endian(word));
  return result;
}

Answer give(Aggregator& aggregator, const Contribution& c) {
  const Words network = host_order(c.words);
  return aggregator.on_update({c.worker, c.slot, c.epoch, c.fingerprint, network, c.exponents});
}

Contribution of(std::uint32_t worker, std::uint32_t epoch, std::uint32_t slot = 0) {
  return {worker,
          slot,
          epoch,
          100 + epoch,
          {1000 * epoch + 10 * worker, worker + 7},
          {static_cast<std::uint8_t>(50 + worker)}};
}

class AggregatorTest : public ::testing::Test {
 protected:
  static JobShape shape(std::uint32_t slots = 2, std::uint32_t workers = kWorkers) {
    return SmallShape{.slots = slots, .block_size = 4, .blocks_per_chunk = 2}.of(workers);
  }
  Answer update(std::uint32_t worker, std::uint32_t epoch, std::uint32_t slot = 0) {
    return give(aggregator_, of(worker, epoch, slot));
  }
  void complete(std::uint32_t epoch, std::uint32_t slot = 0) {
    for (std::uint32_t w = 0; w < kWorkers; ++w) update(w, epoch, slot);
  }
  Words sum(std::uint32_t epoch) const { return {3000 * epoch + 30, 24}; }
  // Expects that a contribution is neither added nor answered, and that only the counter `reason` goes up.
  void expect_rejected(const Contribution& contribution, Counter reason) {
    Counters expected = aggregator_.counters();
    ++expected[reason];
    EXPECT_EQ(give(aggregator_, contribution).effect, Effect::kRejected);
    expected.for_each([&](Counter counter, std::uint64_t value) {
      EXPECT_EQ(aggregator_.counters()[counter], value) << to_string(reason) << ", " << to_string(counter);
    });
  }

  Aggregator aggregator_{shape(), {}};
};

TEST_F(AggregatorTest, TheLastUpdateCompletesThePass) {
  for (std::uint32_t epoch = 0; epoch < 5; ++epoch) {
    EXPECT_EQ(update(0, epoch).effect, Effect::kCounted);
    EXPECT_EQ(update(2, epoch).effect, Effect::kCounted);
    const Answer answer = update(1, epoch);
    ASSERT_EQ(answer.effect, Effect::kCompleted);
    EXPECT_EQ(answer.result.slot, 0u);
    EXPECT_EQ(answer.result.epoch, epoch);
    EXPECT_EQ(answer.result.fingerprint, 100 + epoch);
    EXPECT_EQ(host_order(answer.result.words), sum(epoch));
    EXPECT_EQ(Exponents(answer.result.exponents.begin(), answer.result.exponents.end()), Exponents{52});
  }
  EXPECT_EQ(aggregator_.counters()[Counter::kUpdates], 15u);
  EXPECT_EQ(aggregator_.counters()[Counter::kResults], 5u);
}

TEST_F(AggregatorTest, ADuplicateIsAnsweredWithTheStateOfItsPass) {
  update(0, 0);
  update(2, 0);
  const Answer pending = update(0, 0);
  ASSERT_EQ(pending.effect, Effect::kPending);
  EXPECT_EQ(*pending.seen, WorkerSet{0b101});
  update(1, 0);
  for (std::uint32_t w = 0; w < kWorkers; ++w) {
    const Answer again = update(w, 0);
    ASSERT_EQ(again.effect, Effect::kResultAgain);
    EXPECT_EQ(host_order(again.result.words), sum(0));
  }
  EXPECT_EQ(aggregator_.counters()[Counter::kDuplicates], 4u);
}

TEST_F(AggregatorTest, AResultStaysUntilThePassAfterNextBegins) {
  complete(0);
  update(0, 1);
  update(1, 1);
  EXPECT_EQ(host_order(update(2, 0).result.words), sum(0));
  update(2, 1);
  EXPECT_EQ(host_order(update(2, 0).result.words), sum(0));
  update(0, 2);
  expect_rejected(of(2, 0), Counter::kStale);
}

TEST_F(AggregatorTest, APassThatCannotHaveBegunIsAhead) {
  EXPECT_EQ(update(0, 1).effect, Effect::kAhead);
  EXPECT_EQ(update(0, 4).effect, Effect::kAhead);
  EXPECT_EQ(aggregator_.counters()[Counter::kAhead], 2u);
}

TEST_F(AggregatorTest, UpdatesOutsideTheShapeAreRejected) {
  const auto with = [](auto change) {
    Contribution c = of(1, 0);
    change(c);
    return c;
  };
  expect_rejected(with([](auto& c) { c.worker = kWorkers; }), Counter::kBadWorker);
  expect_rejected(with([](auto& c) { c.worker = 0xffff'ffff; }), Counter::kBadWorker);
  expect_rejected(with([](auto& c) { c.slot = 2; }), Counter::kBadSlot);
  expect_rejected(with([](auto& c) { c.slot = 0xffff'ffff; }), Counter::kBadSlot);
  expect_rejected(with([](auto& c) { c.words.resize(9); }), Counter::kTooLarge);
  expect_rejected(with([](auto& c) { c.exponents.resize(3); }), Counter::kTooLarge);
  EXPECT_EQ(give(aggregator_, with([](auto& c) { c.words.resize(8), c.exponents.resize(2); })).effect,
            Effect::kCounted);
}

// Equal fingerprints mean equal sizes, so no worker sends such an update. It is not added, and does not end the job.
TEST_F(AggregatorTest, UpdatesWithOtherSizesThanTheirPassAreRejected) {
  update(0, 0);
  Contribution other = of(1, 0);
  other.words.push_back(1);
  expect_rejected(other, Counter::kMismatch);
  other = of(1, 0);
  other.exponents.push_back(1);
  expect_rejected(other, Counter::kMismatch);
  update(1, 0);
  EXPECT_EQ(host_order(update(2, 0).result.words), sum(0));
}

TEST_F(AggregatorTest, AnotherFingerprintNamesTheFirstWorker) {
  update(2, 0);
  update(0, 0);
  Contribution other = of(1, 0);
  other.fingerprint = 5;
  const Answer answer = give(aggregator_, other);
  EXPECT_EQ(answer.effect, Effect::kMismatch);
  EXPECT_EQ(answer.other, 2u);
  EXPECT_EQ(aggregator_.counters()[Counter::kMismatch], 1u);
  EXPECT_TRUE(aggregator_.ended().ok()) << "that is for who speaks for it to decide";
}

TEST_F(AggregatorTest, TheFirstReasonToEndIsKept) {
  update(0, 0);
  aggregator_.end({ErrorCode::kWorkerLost, "worker 1 died"});
  aggregator_.end({ErrorCode::kMismatch, "later"});
  EXPECT_EQ(aggregator_.ended().message, "worker 1 died");
  EXPECT_EQ(update(1, 0).effect, Effect::kEnded);
  EXPECT_EQ(update(0, 0).effect, Effect::kEnded);
  EXPECT_EQ(aggregator_.counters()[Counter::kAborted], 2u);
  EXPECT_EQ(aggregator_.counters()[Counter::kUpdates], 1u);
}

TEST_F(AggregatorTest, MissingListsTheWorkersThatSomeIncompletePassWaitsFor) {
  EXPECT_EQ(aggregator_.missing(), WorkerSet{});
  update(1, 0, 0);
  EXPECT_EQ(aggregator_.missing(), WorkerSet{0b101});
  update(0, 0, 1);
  EXPECT_EQ(aggregator_.missing(), WorkerSet{0b111}) << "slot 0 waits for 0 and 2, slot 1 for 1 and 2";
  update(1, 0, 1);
  update(0, 0, 0);
  EXPECT_EQ(aggregator_.missing(), WorkerSet{0b100});
  update(2, 0, 0);
  update(2, 0, 1);
  EXPECT_EQ(aggregator_.missing(), WorkerSet{});
}

// The set of workers consists of words of 64 bits. The last word may be used in part, or not at all.
TEST(Aggregator, MissingListsNoWorkerBeyondTheLast) {
  for (const std::uint32_t workers : {2u, 63u, 64u, 65u, 128u, 1000u, 1023u, 1024u}) {
    Aggregator aggregator(SmallShape{.slots = 1, .block_size = 4, .blocks_per_chunk = 1}.of(workers), {});
    give(aggregator, {.worker = workers / 2, .words = {1}, .exponents = {}});
    WorkerSet expected{};
    for (std::uint32_t w = 0; w < workers; ++w) {
      if (w != workers / 2) insert(expected, w);
    }
    EXPECT_EQ(aggregator.missing(), expected) << workers;
  }
}

TEST(Aggregator, EveryShardHasEveryNthSlotAndAllShardsHaveAllSlots) {
  for (const std::uint32_t slots : {1u, 2u, 5u, 6u, 7u}) {
    for (const std::uint32_t of_all : {1u, 2u, 3u, 8u, 20u}) {
      const JobShape shape = SmallShape{.slots = slots, .block_size = 4, .blocks_per_chunk = 1}.of(1);
      std::vector<std::uint32_t> taken(slots + 1);
      for (std::uint32_t index = 0; index < of_all; ++index) {
        Aggregator shard(shape, {.shard = {index, of_all}});
        std::vector<Words> sums;
        for (std::uint32_t slot = 0; slot <= slots; ++slot) {
          const bool mine = slot < slots && slot % of_all == index;
          const Answer answer = give(shard, {.slot = slot, .fingerprint = 9, .words = {100 + slot}, .exponents = {}});
          ASSERT_EQ(answer.effect, mine ? Effect::kCompleted : Effect::kRejected)
              << slots << " " << of_all << " " << slot;
          ASSERT_EQ(shard.inspect(slot, 0).has_value(), mine);
          taken[slot] += mine;
        }
        for (std::uint32_t slot = index; slot < slots; slot += of_all) {  // no two slots share memory
          EXPECT_EQ(shard.inspect(slot, 0)->words, Words{100 + slot});
        }
      }
      taken.back() += 1;
      EXPECT_EQ(taken, std::vector<std::uint32_t>(slots + 1, 1));
    }
  }
}

TEST(Aggregator, AShardTakesMemoryForItsSlotsOnly) {
  const JobShape shape({.devices = 2, .workers = 2, .slots = 100, .block_size = 256, .blocks_per_chunk = 4});
  const std::size_t whole = Aggregator::bytes_for(shape, {});
  std::size_t parts = 0;
  for (std::uint32_t index = 0; index < 3; ++index) parts += Aggregator::bytes_for(shape, {.shard = {index, 3}});
  EXPECT_EQ(parts, whole);
  EXPECT_EQ(Aggregator::bytes_for(shape, {.shard = {100, ~std::uint32_t{0}}}), 0u) << "no slot has such a number";
  EXPECT_GE(whole, 2u * 100 * (4 * 1024 + 4) + 100 * sizeof(SlotState)) << "what describes a slot counts, too";
}

TEST(Aggregator, TheHeadroomStaysWithTheResult) {
  Aggregator aggregator(SmallShape{.slots = 1, .block_size = 4, .blocks_per_chunk = 2}.of(1), {.headroom = 36});
  const Answer first = give(aggregator, {.epoch = 0, .fingerprint = 1, .words = {1, 2, 3}, .exponents = {4, 5}});
  ASSERT_EQ(first.effect, Effect::kCompleted);
  EXPECT_EQ(first.result.headroom + 36, first.result.exponents.data());
  EXPECT_EQ(reinterpret_cast<const std::uint8_t*>(first.result.words.data()), first.result.exponents.data() + 4);
  EXPECT_EQ(first.result.exponents.data()[2], 0) << "padded with zeros";
  EXPECT_EQ(first.result.exponents.data()[3], 0);
  std::fill_n(first.result.headroom, 36, std::uint8_t{0xab});
  give(aggregator, {.epoch = 1, .fingerprint = 2, .words = {9, 9, 9}, .exponents = {9, 9}});
  const Answer again = give(aggregator, {.epoch = 0, .fingerprint = 1, .words = {1, 2, 3}, .exponents = {4, 5}});
  ASSERT_EQ(again.effect, Effect::kResultAgain);
  EXPECT_EQ(again.result.headroom, first.result.headroom);
  EXPECT_EQ(Exponents(again.result.headroom, again.result.headroom + 36), Exponents(36, 0xab));
  EXPECT_EQ(host_order(again.result.words), (Words{1, 2, 3}));
}

TEST(Aggregator, ExtraWordsAreAddedLikeAllWords) {
  Aggregator aggregator(SmallShape{.slots = 1, .block_size = 4, .blocks_per_chunk = 1}.of(2), {.extra_words = 2});
  give(aggregator, {.worker = 0, .words = {1, 2, 3, 4, 5, 6}, .exponents = {}});
  EXPECT_EQ(give(aggregator, {.worker = 1, .words = {1, 1, 1, 1, 1, 1, 1}, .exponents = {}}).effect, Effect::kRejected);
  const Answer answer = give(aggregator, {.worker = 1, .words = {10, 20, 30, 40, 50, 0xffff'ffff}, .exponents = {}});
  EXPECT_EQ(host_order(answer.result.words), (Words{11, 22, 33, 44, 55, 5}));
}

TEST(Aggregator, ACompletePassIsSealedOnce) {
  const auto seal = [](std::span<std::uint32_t> words, std::span<const std::uint8_t> exponents) {
    words.back() += 1000u * exponents[0];
  };
  Aggregator aggregator(SmallShape{.slots = 1, .block_size = 4, .blocks_per_chunk = 1}.of(2),
                        {.extra_words = 2, .seal = seal});
  give(aggregator, {.worker = 0, .words = {1, 2}, .exponents = {3}});
  const Answer answer = give(aggregator, {.worker = 1, .words = {10, 20}, .exponents = {7}});
  EXPECT_EQ(host_order(answer.result.words), (Words{11, 7022}));
  const Answer again = give(aggregator, {.worker = 1, .words = {10, 20}, .exponents = {7}});
  ASSERT_EQ(again.effect, Effect::kResultAgain);
  EXPECT_EQ(host_order(again.result.words), (Words{11, 7022}));
}

TEST(Aggregator, AllSlotsBeginWithTheFirstEpoch) {
  Aggregator aggregator(SmallShape{.slots = 1, .block_size = 4, .blocks_per_chunk = 1}.of(1),
                        {.first_epoch = 0xffff'ffff});
  EXPECT_EQ(give(aggregator, {.epoch = 0, .words = {1}, .exponents = {}}).effect, Effect::kAhead);
  EXPECT_EQ(give(aggregator, {.epoch = 0xffff'ffff, .words = {1}, .exponents = {}}).effect, Effect::kCompleted);
  EXPECT_EQ(give(aggregator, {.epoch = 0, .words = {1}, .exponents = {}}).effect, Effect::kCompleted);
  EXPECT_EQ(give(aggregator, {.epoch = 0xffff'fffe, .words = {1}, .exponents = {}}).effect, Effect::kRejected);
}

TEST_F(AggregatorTest, InspectIsInHostOrderBeforeAndAfterThePassIsComplete) {
  update(0, 0);
  EXPECT_EQ(aggregator_.inspect(0, 0)->words, (Words{0, 7}));
  EXPECT_EQ(aggregator_.inspect(0, 0)->control.count, 1u);
  update(1, 0);
  update(2, 0);
  EXPECT_EQ(aggregator_.inspect(0, 0)->words, sum(0));
  EXPECT_EQ(aggregator_.inspect(0, 0)->exponents, Exponents{52});
  EXPECT_FALSE(aggregator_.inspect(2, 0));
}

TEST_F(AggregatorTest, UpdatesAllocateNothing) {
  const Words words(8, 1);
  const Exponents exponents(2, 1);
  const std::uint64_t before = testing::allocations();
  for (std::uint32_t epoch = 0; epoch < 4; ++epoch) {
    for (std::uint32_t w = 0; w < kWorkers + 1; ++w) {
      aggregator_.on_update({w, 0, epoch, 1, words, exponents});
      aggregator_.on_update({w, 0, epoch, 1, words, exponents});
      aggregator_.missing();
    }
  }
  EXPECT_EQ(testing::allocations(), before);
  EXPECT_EQ(aggregator_.counters()[Counter::kResults], 4u);
}

}  // namespace
}  // namespace jaxina
