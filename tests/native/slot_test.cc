// Tests what an update does to a slot: in order, again, from the past, too early, and around the wrap of the epoch.
#include "rdma_engine/aggregator/slot.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace jaxina {
namespace {

constexpr std::uint32_t kFingerprint = 99;

class SlotTest : public ::testing::Test {
 protected:
  explicit SlotTest() { slot_.reset(kWorkers); }

  Outcome update(std::uint32_t worker, std::uint32_t epoch, std::uint32_t fingerprint = kFingerprint) {
    return apply_update(slot_, kWorkers, {worker, epoch, fingerprint});
  }
  void complete(std::uint32_t epoch) {
    for (std::uint32_t w = 0; w < kWorkers; ++w) update(w, epoch);
  }
  // Makes the slot look as if all passes before `epoch` were complete.
  void start_at(std::uint32_t epoch) {
    for (const std::uint32_t e : {epoch - 1, epoch - 2}) {
      slot_.version(e) = {e, kFingerprint, kWorkers, 0, {}};
      for (std::uint32_t w = 0; w < kWorkers; ++w) insert(slot_.version(e).seen, w);
    }
  }
  void expect_unchanged_by(Verdict verdict, std::uint32_t worker, std::uint32_t epoch,
                           std::uint32_t fingerprint = kFingerprint) {
    const SlotState before = slot_;
    const Outcome outcome = update(worker, epoch, fingerprint);
    EXPECT_EQ(outcome.verdict, verdict) << "epoch " << epoch;
    EXPECT_FALSE(outcome.completes);
    for (int v = 0; v < 2; ++v) {
      EXPECT_EQ(slot_.versions[v].epoch, before.versions[v].epoch);
      EXPECT_EQ(slot_.versions[v].count, before.versions[v].count);
      EXPECT_EQ(slot_.versions[v].fingerprint, before.versions[v].fingerprint);
      EXPECT_EQ(slot_.versions[v].seen, before.versions[v].seen);
    }
  }

  static constexpr std::uint32_t kWorkers = 3;
  SlotState slot_;
};

TEST_F(SlotTest, InOrder) {
  for (std::uint32_t epoch = 0; epoch < 10; ++epoch) {
    EXPECT_EQ(update(1, epoch).verdict, Verdict::kFirst);
    EXPECT_EQ(update(0, epoch).verdict, Verdict::kAdd);
    const Outcome last = update(2, epoch);
    EXPECT_EQ(last.verdict, Verdict::kAdd);
    EXPECT_TRUE(last.completes);
  }
}

TEST_F(SlotTest, DuplicateOfAnIncompletePass) {
  update(0, 0);
  expect_unchanged_by(Verdict::kDuplicate, 0, 0);
  update(1, 0);
  expect_unchanged_by(Verdict::kDuplicate, 0, 0);
  expect_unchanged_by(Verdict::kDuplicate, 1, 0);
}

TEST_F(SlotTest, DuplicateOfACompletePassAsksForTheResult) {
  complete(0);
  expect_unchanged_by(Verdict::kResend, 2, 0);
  update(0, 1);
  expect_unchanged_by(Verdict::kResend, 2, 0);
  complete(1);
  expect_unchanged_by(Verdict::kResend, 2, 0);  // nobody has begun pass 2, so the result is still there
}

TEST_F(SlotTest, PastPassesAreIgnored) {
  start_at(1000);
  update(0, 1000);
  for (const std::uint32_t age : {2u, 3u, 4u, 100u, 1000u}) expect_unchanged_by(Verdict::kStale, 1, 1000 - age);
}

TEST_F(SlotTest, FuturePassesAreRefused) {
  start_at(1000);
  expect_unchanged_by(Verdict::kAhead, 0, 1001);  // pass 1000 has not begun
  update(0, 1000);
  expect_unchanged_by(Verdict::kAhead, 0, 1001);  // nor is it complete
  for (const std::uint32_t distance : {2u, 3u, 4u, 100u}) expect_unchanged_by(Verdict::kAhead, 0, 1000 + distance);
}

TEST_F(SlotTest, OtherFingerprintIsRefused) {
  update(0, 0);
  expect_unchanged_by(Verdict::kMismatch, 1, 0, kFingerprint + 1);
  expect_unchanged_by(Verdict::kMismatch, 0, 0, kFingerprint + 1);
  EXPECT_EQ(slot_.version(0).first, 0u);
}

TEST_F(SlotTest, AnEmptySlotRefusesEveryLaterPass) {
  for (const std::uint32_t epoch : {1u, 2u, 3u, 1000u, 0x7ffffffdu}) expect_unchanged_by(Verdict::kAhead, 0, epoch);
  EXPECT_EQ(update(0, 0).verdict, Verdict::kFirst);
}

TEST_F(SlotTest, InitialVersionsRefuseContributions) {
  expect_unchanged_by(Verdict::kStale, 0, static_cast<std::uint32_t>(-1), 0);
  expect_unchanged_by(Verdict::kStale, 0, static_cast<std::uint32_t>(-2), 0);
}

// Repeats the cases above at every epoch around the wrap.
TEST_F(SlotTest, EpochWrapsAround) {
  start_at(static_cast<std::uint32_t>(-5));
  for (int pass = -5; pass < 6; ++pass) {
    const auto epoch = static_cast<std::uint32_t>(pass);
    expect_unchanged_by(Verdict::kAhead, 0, epoch + 1);
    EXPECT_EQ(update(0, epoch).verdict, Verdict::kFirst) << pass;
    expect_unchanged_by(Verdict::kDuplicate, 0, epoch);
    for (const std::uint32_t age : {2u, 3u, 4u, 5u, 6u, 1u << 20}) expect_unchanged_by(Verdict::kStale, 1, epoch - age);
    expect_unchanged_by(Verdict::kResend, 1, epoch - 1);
    update(1, epoch);
    EXPECT_TRUE(update(2, epoch).completes) << pass;
  }
}

// Tests the window in which a late packet is told from a current one. docs/reliability.md derives it.
TEST_F(SlotTest, EpochWindow) {
  start_at(0);
  update(0, 0);  // the newest pass is 0: a packet `age` passes old has epoch -age
  for (const std::uint32_t age : {2u, 3u, 0x7fffffffu, 0x7ffffffeu}) {
    expect_unchanged_by(Verdict::kStale, 1, static_cast<std::uint32_t>(-age));
  }
  // From an age of 2^31 on, the packet is taken for one from the future. It is refused, which ends the job, but it is
  // still never added ...
  for (const std::uint32_t age : {0x80000002u, 0x80000003u, 0xfffffffeu}) {
    expect_unchanged_by(Verdict::kAhead, 1, static_cast<std::uint32_t>(-age));
  }
  // ... up to an age of 2^32 - 2. A packet that is one pass older would be taken for the first update of the next pass.
  complete(0);
  expect_unchanged_by(Verdict::kAhead, 1, static_cast<std::uint32_t>(-0xfffffffe));
  EXPECT_EQ(update(1, static_cast<std::uint32_t>(-0xffffffff)).verdict, Verdict::kFirst);
}

TEST(Slot, OneWorkerCompletesAtOnce) {
  SlotState slot;
  slot.reset(1);
  for (std::uint32_t epoch = 0; epoch < 5; ++epoch) {
    const Outcome outcome = apply_update(slot, 1, {0, epoch, 7});
    EXPECT_EQ(outcome.verdict, Verdict::kFirst);
    EXPECT_TRUE(outcome.completes);
    EXPECT_EQ(apply_update(slot, 1, {0, epoch, 7}).verdict, Verdict::kResend);
  }
}

TEST(Slot, MostWorkers) {
  constexpr std::uint32_t n = numerics::kMaxWorkers;
  SlotState slot;
  slot.reset(n);
  std::mt19937 random(1);
  for (std::uint32_t epoch = 0; epoch < 4; ++epoch) {
    std::vector<std::uint32_t> order(n);
    for (std::uint32_t w = 0; w < n; ++w) order[w] = w;
    std::shuffle(order.begin(), order.end(), random);
    for (std::uint32_t i = 0; i < n; ++i) {
      EXPECT_EQ(apply_update(slot, n, {order[i], epoch, 7}).completes, i == n - 1);
      EXPECT_EQ(apply_update(slot, n, {order[i / 2], epoch, 7}).verdict,
                i == n - 1 ? Verdict::kResend : Verdict::kDuplicate);
    }
  }
}

}  // namespace
}  // namespace jaxina
