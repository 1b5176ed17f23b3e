// Tests the order in which a worker sends what is ready.
#include "rdma_engine/worker/ready_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "tests/native/test_seed.h"

namespace jaxina {
namespace {

Place chunk(std::size_t number) { return {.collective = 1, .chunk = number, .phase = Phase::kData}; }

std::vector<std::uint16_t> all(ReadyQueue& queue) {
  std::vector<std::uint16_t> slots;
  while (const auto slot = queue.pop()) slots.push_back(*slot);
  return slots;
}

TEST(ReadyQueue, ByCollectiveThenChunkThenPhase) {
  ReadyQueue queue(4);
  queue.push(0, {1, 0, Phase::kLookAhead});
  queue.push(1, {0, 9, Phase::kData});
  queue.push(2, {0, 8, Phase::kData});
  queue.push(3, {0, 8, Phase::kFlags});
  for (const std::uint16_t slot : {3, 2, 1, 0}) EXPECT_EQ(queue.pop(), slot);
  EXPECT_EQ(queue.pop(), std::nullopt);
}

// A worker with a small window would otherwise send the pass that took an older one's place, and hold back the pass
// that the others wait for.
TEST(ReadyQueue, AWithdrawnPassLeavesItsPlace) {
  ReadyQueue queue(4);
  for (std::uint16_t slot = 0; slot < 4; ++slot) queue.push(slot, chunk(slot));
  queue.withdraw(0);
  queue.push(0, chunk(4));
  EXPECT_EQ(queue.first(), 1);
  EXPECT_EQ(all(queue), (std::vector<std::uint16_t>{1, 2, 3, 0}));
}

TEST(ReadyQueue, ASlotIsThereOnce) {
  ReadyQueue queue(2);
  queue.push(1, chunk(1));
  queue.push(1, chunk(1));
  queue.withdraw(0);
  EXPECT_EQ(all(queue), (std::vector<std::uint16_t>{1}));
  EXPECT_EQ(queue.first(), std::nullopt);
}

TEST(ReadyQueue, TheFirstPassOfTheStreamComesFirstWhateverHappensBefore) {
  constexpr std::uint16_t kSlots = 37;
  std::mt19937 random(static_cast<std::uint32_t>(testing::test_seed()));
  ReadyQueue queue(kSlots);
  std::map<std::size_t, std::uint16_t> expected;  // slot by chunk
  std::vector<std::size_t> chunks(kSlots);
  for (std::uint16_t slot = 0; slot < kSlots; ++slot) chunks[slot] = slot;
  for (int step = 0; step < 20'000; ++step) {
    const auto slot = static_cast<std::uint16_t>(random() % kSlots);
    const bool is_ready = expected.contains(chunks[slot]);
    if (random() % 3 == 0) {
      const auto popped = queue.pop();
      ASSERT_EQ(popped.has_value(), !expected.empty());
      if (!popped) continue;
      ASSERT_EQ(*popped, expected.begin()->second);
      expected.erase(expected.begin());
    } else if (is_ready) {
      queue.withdraw(slot);
      expected.erase(chunks[slot]);
      chunks[slot] += kSlots;  // its result has come
    } else {
      queue.push(slot, chunk(chunks[slot]));
      expected[chunks[slot]] = slot;
    }
  }
}

}  // namespace
}  // namespace jaxina
