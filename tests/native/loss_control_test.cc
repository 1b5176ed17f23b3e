// Tests loss control alone, without a stream: what it takes for lost and when, and how many passes it allows in flight.
#include "rdma_engine/worker/loss_control.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace jaxina {
namespace {

using Slots = std::vector<std::uint16_t>;

constexpr Nanoseconds kMs = 1'000'000;
constexpr TimerLimits kTimer{.initial = 10 * kMs, .minimum = kMs, .maximum = 100 * kMs, .reordering = 3};

// A loss control that records the slots whose passes it takes for lost.
struct Loss {
  explicit Loss(std::size_t slots, std::uint32_t paths = 1, WindowLimits window = {})
      : control(slots, kTimer, paths, window) {}
  void send(const Slots& slots, Nanoseconds now) {
    for (const std::uint16_t slot : slots) control.on_sent(slot, now);
  }
  Slots result(std::uint16_t slot, Nanoseconds now, bool is_marked = false) {
    Slots lost;
    control.on_result(slot, now, is_marked, [&](std::uint16_t other) { lost.push_back(other); });
    return lost;
  }
  Slots tick(Nanoseconds now) {
    Slots lost;
    control.on_tick(now, [&](std::uint16_t other) { lost.push_back(other); });
    return lost;
  }
  LossControl control;
};

TEST(LossControl, APassThatThreeLaterOnesOvertakeIsLost) {
  Loss loss(6);
  loss.send({0, 1, 2, 3, 4, 5}, 0);
  EXPECT_EQ(loss.result(2, 1), Slots{});
  EXPECT_EQ(loss.result(4, 1), (Slots{0, 1}));
  EXPECT_TRUE(loss.control.was_sent(0)) << "its result may still come";
  EXPECT_EQ(loss.control.in_flight(), 2u);
  loss.send({0}, 2);
  EXPECT_EQ(loss.control.retransmissions(), 1u);
  EXPECT_EQ(loss.result(0, 3), Slots{}) << "may answer the first transmission, and says nothing of what came after";
  EXPECT_FALSE(loss.control.was_sent(0));
}

TEST(LossControl, PathsDoNotOvertakeOneAnother) {
  Loss loss(6, 2);
  loss.send({0, 1, 2, 3, 4, 5}, 0);
  for (const std::uint16_t slot : {1, 3, 5}) EXPECT_EQ(loss.result(slot, 1), Slots{});
}

TEST(LossControl, ACountedPassIsLostOnlyByItsTimeout) {
  Loss loss(5);
  loss.send({0, 1, 2, 3, 4}, 0);
  EXPECT_EQ(loss.result(4, kMs), (Slots{0, 1}));
  loss.send({0}, 2 * kMs);
  loss.send({4}, 2 * kMs);
  EXPECT_TRUE(loss.control.on_pending(2, 3 * kMs));
  EXPECT_EQ(loss.result(4, 3 * kMs), (Slots{3})) << "but not 2, sent as long before";
  const Nanoseconds timeout = kMs + 4 * (kMs / 2 - kMs / 8);  // after two samples of 1 ms
  EXPECT_EQ(loss.tick(2 * kMs + timeout), (Slots{0}));
  EXPECT_EQ(loss.tick(3 * kMs + timeout - 1), Slots{});
  EXPECT_EQ(loss.tick(3 * kMs + timeout), (Slots{2})) << "from the notice on";
}

TEST(LossControl, ANoticeForAPassThatIsNotInFlightIsIgnored) {
  Loss loss(2);
  EXPECT_FALSE(loss.control.on_pending(0, 0));
  loss.send({0}, 0);
  loss.result(0, 1);
  EXPECT_FALSE(loss.control.on_pending(0, 2));
}

TEST(LossControl, APassThatASwitchTurnsAwayIsSentAgainAtOnce) {
  Loss loss(2);
  Slots lost;
  const auto turn_away = [&](std::uint16_t slot) {
    loss.control.on_turned_away(slot, [&](std::uint16_t other) { lost.push_back(other); });
  };
  turn_away(0);
  EXPECT_EQ(lost, Slots{}) << "it is not in flight";
  loss.send({0, 1}, 0);
  turn_away(1);
  turn_away(1);
  EXPECT_EQ(lost, (Slots{1}));
}

TEST(LossControl, OnAnotherWayPassesAreSentAgainInAWindowThatBeginsSmall) {
  Loss loss(8, 1, {.first = 2, .standing = 8 * kMs});
  Slots lost;
  loss.send({0, 1}, 0);
  for (const std::uint16_t slot : {0, 1}) loss.result(slot, kMs);
  loss.send({2, 3, 4}, kMs);
  EXPECT_EQ(loss.control.window().passes(), 4u);
  loss.control.on_rerouted([&](std::uint16_t slot) { lost.push_back(slot); });
  EXPECT_EQ(lost, (Slots{2, 3, 4}));
  EXPECT_EQ(loss.control.window().passes(), 2u);
  loss.send({2, 3}, 2 * kMs);
  EXPECT_FALSE(loss.control.has_room());
  EXPECT_EQ(loss.control.times_sent(4), 1u) << "it may still get a result";
}

TEST(LossControl, SilenceIsProbedWithTwiceAsManyAfterTwiceAsLong) {
  Loss loss(12);
  for (std::uint16_t slot = 0; slot < 12; ++slot) loss.send({slot}, slot);  // slot 0's pass is the oldest
  std::vector<std::size_t> sizes;
  std::vector<Nanoseconds> times;
  for (Nanoseconds now = 0; now <= 251 * kMs; now += kMs) {
    const Slots lost = loss.tick(now);
    if (lost.empty()) continue;
    if (times.empty()) {
      EXPECT_EQ(lost, (Slots{0}));
    }
    times.push_back(now / kMs);
    sizes.push_back(lost.size());
    loss.send(lost, now);
  }
  EXPECT_EQ(times, (std::vector<Nanoseconds>{10, 30, 70, 150, 250}));
  EXPECT_EQ(sizes, (std::vector<std::size_t>{1, 2, 4, 8, 12}));
}

TEST(LossControl, OnlyANoticeThatAnswersAProbeSaysThatOthersHaveComeThrough) {
  for (const bool asked : {true, false}) {
    Loss loss(8);
    for (std::uint16_t slot = 0; slot < 8; ++slot) loss.send({slot}, slot);
    loss.send(loss.tick(10 * kMs), 10 * kMs);
    EXPECT_TRUE(loss.control.on_pending(0, 11 * kMs, asked));
    EXPECT_EQ(loss.tick(100 * kMs).size(), asked ? 1u : 2u);
  }
}

// A worker has lost all that it has sent. The others wait for these passes, so no pass that it sends later is answered.
TEST(LossControl, AfterAStandstillALostWindowIsSentAgainOnePassPerRoundTrip) {
  for (const bool notices : {false, true}) {
    Loss loss(128);
    for (std::uint16_t slot = 0; slot < 128; ++slot) loss.send({slot}, 0);
    Nanoseconds now = 101 * kMs;  // longer than any timeout
    while (loss.control.in_flight() > 0) {
      const Slots lost = loss.tick(now);
      now += kMs;
      if (lost.empty()) continue;
      EXPECT_EQ(lost.size(), 1u);
      loss.send(lost, now);
      if (notices) loss.control.on_pending(lost[0], now);
      EXPECT_EQ(loss.result(lost[0], now), Slots{});
    }
    if (notices) {  // the aggregator had them all
      EXPECT_GT(now, 1'000 * kMs);
    } else {
      EXPECT_EQ(now, (101 + 128) * kMs);
    }
  }
}

TEST(LossControl, ARetransmissionGivesNoSample) {
  Loss loss(2);
  loss.send({0}, 0);
  EXPECT_EQ(loss.tick(10 * kMs), (Slots{0}));
  loss.send({0}, 10 * kMs);
  loss.result(0, 11 * kMs);
  loss.send({1}, 11 * kMs);
  EXPECT_EQ(loss.control.next_deadline(), 21 * kMs) << "the initial timeout still";
}

TEST(LossControl, ThereIsRoomForTheWindowAndNeverForMoreThanTheSlots) {
  Loss loss(4, 1, {.first = 2});
  loss.send({0, 1}, 0);
  EXPECT_FALSE(loss.control.has_room());
  loss.result(0, 1);
  loss.result(1, 1);
  loss.send({0, 1, 2}, 2);
  EXPECT_TRUE(loss.control.has_room());
  loss.send({3}, 2);
  EXPECT_FALSE(loss.control.has_room());
}

std::size_t fill(Loss& loss, std::uint16_t slots, Nanoseconds now) {
  for (std::uint16_t slot = 0; slot < slots && loss.control.has_room(); ++slot) {
    if (!loss.control.was_sent(slot)) loss.send({slot}, now);
  }
  return loss.control.in_flight();
}

TEST(LossControl, AnOverflowHalvesTheWindowOnceEvenBelowItsFirstSize) {
  Loss loss(8, 1, {.first = 8});
  EXPECT_EQ(fill(loss, 8, 0), 8u);
  for (int told = 0; told < 3; ++told) loss.control.on_overflow();  // the own buffer and every result report it
  for (std::uint16_t slot = 0; slot < 8; ++slot) {
    EXPECT_EQ(loss.control.has_room(), slot >= 5) << slot;
    loss.result(slot, 1);
  }
  EXPECT_EQ(fill(loss, 8, 2), 4u);
  loss.control.on_overflow();
  for (std::uint16_t slot = 0; slot < 4; ++slot) loss.result(slot, 3);
  EXPECT_EQ(fill(loss, 8, 4), 2u);
  // The window grows back slowly, because an overflow costs more than many round trips.
  std::size_t largest = 2;
  for (Nanoseconds now = 5; now < 400; now += 2) {
    for (std::uint16_t slot = 0; slot < 8; ++slot) {
      if (loss.control.is_in_flight(slot)) loss.result(slot, now);
    }
    const std::size_t in_flight = fill(loss, 8, now + 1);
    EXPECT_LE(in_flight, largest + 1);
    if (now < 100) {
      EXPECT_EQ(in_flight, 2u);
    }
    largest = std::max(largest, in_flight);
  }
  EXPECT_GE(largest, 4u);
}

TEST(LossControl, AfterAnOverflowAWindowIsSentAgainInSilence) {
  Loss patient(8, 1, {.first = 8}), told(8, 1, {.first = 8});
  for (Loss* loss : {&patient, &told}) fill(*loss, 8, 0);
  told.control.on_overflow();
  EXPECT_EQ(patient.tick(10 * kMs).size(), 1u);
  EXPECT_EQ(told.tick(10 * kMs).size(), 4u) << "the window, which is half of what was in flight";
}

// The sizes of the window that results with marks leave, if as many passes as possible are in flight.
std::vector<std::size_t> sizes_with_marks(Loss& loss, std::uint16_t slots, const std::vector<bool>& marks) {
  std::vector<std::size_t> sizes;
  Nanoseconds now = 0;
  for (const bool marked : marks) {
    sizes.push_back(fill(loss, slots, ++now));
    ++now;
    for (std::uint16_t slot = 0; slot < slots; ++slot) {
      if (!loss.control.is_in_flight(slot)) continue;
      loss.result(slot, now, marked);
    }
  }
  return sizes;
}

TEST(LossControl, MarksDecreaseTheWindowOncePerRoundTripAndThenItGrowsByOne) {
  Loss loss(64, 1, {.first = 32});
  const std::vector<bool> marks = {true, true, true, false, false, false, false, true, false};
  // The last mark comes after four round trips without any, so it counts for less than the first ones.
  EXPECT_EQ(sizes_with_marks(loss, 64, marks), (std::vector<std::size_t>{32, 16, 8, 4, 5, 6, 7, 8, 5}));
  EXPECT_EQ(loss.control.window().marks(), 32u + 16u + 8u + 8u);
  EXPECT_EQ(loss.control.window().decreases(), 4u);
}

TEST(LossControl, RareMarksDecreaseTheWindowLittle) {
  Loss loss(64, 1, {.first = 64});
  std::vector<bool> marks(200, false);
  for (std::size_t i = 0; i < marks.size(); i += 20) marks[i] = true;
  const std::vector<std::size_t> sizes = sizes_with_marks(loss, 64, marks);
  EXPECT_EQ(sizes[1], 32u) << "nothing is known yet, so the first mark halves the window";
  EXPECT_GT(sizes[181], sizes[180] * 3 / 4);
  EXPECT_LT(sizes[181], sizes[180]);
}

TEST(LossControl, MarksOnPassesFromBeforeADecreaseChangeNothing) {
  Loss loss(16, 1, {.first = 8});
  loss.send({0, 1, 2, 3}, 0);
  loss.result(0, 5, true);
  loss.send({4}, 6);
  for (const std::uint16_t slot : {1, 2, 3}) loss.result(slot, 7, true);
  EXPECT_EQ(loss.control.window().decreases(), 1u);
  loss.result(4, 8, true);
  EXPECT_EQ(loss.control.window().decreases(), 2u);
}

TEST(LossControl, MarksLeaveAWindowOfOnePass) {
  Loss loss(8, 1, {.first = 4});
  EXPECT_EQ(sizes_with_marks(loss, 8, std::vector<bool>(6, true)), (std::vector<std::size_t>{4, 2, 1, 1, 1, 1}));
}

TEST(LossControl, AWindowIsHalvedOnceForMarksAndLongRoundTripsTogether) {
  for (const bool is_marked : {true, false}) {
    Loss loss(16, 1, {.first = 1, .standing = 5 * kMs});
    for (std::uint16_t slot = 0; slot < 7; ++slot) {  // the window grows to 8
      loss.send({slot}, 0);
      loss.result(slot, 1);
    }
    EXPECT_EQ(fill(loss, 16, 1), 8u);
    for (std::uint16_t slot = 0; slot < 8; ++slot) loss.result(slot, 10 * kMs, is_marked || slot == 7);
    EXPECT_EQ(loss.control.window().decreases(), 1u) << is_marked;
  }
}

TEST(LossControl, LatestFirstListsTheLatestPassesFirst) {
  Loss loss(4);
  loss.send({2}, 1);
  loss.send({0}, 2);
  loss.send({3}, 3);
  loss.result(0, 4);
  EXPECT_EQ(loss.control.latest_first(), (Slots{3, 2}));
}

TEST(LossControl, WithNothingInFlightThereIsNoDeadline) {
  Loss loss(1);
  EXPECT_EQ(loss.control.next_deadline(), std::nullopt);
  loss.send({0}, 5);
  EXPECT_EQ(loss.control.next_deadline(), 5 + 10 * kMs);
  loss.result(0, 6);
  EXPECT_EQ(loss.control.next_deadline(), std::nullopt);
  EXPECT_EQ(loss.tick(1000 * kMs), Slots{});
}

TEST(LossControlDeathTest, APassThatIsInFlightIsNotSentAgain) {
  Loss loss(2);
  loss.send({0}, 0);
  EXPECT_DEATH(loss.send({0}, 1), "assertion failed");
}

}  // namespace
}  // namespace jaxina
