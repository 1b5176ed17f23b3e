// Tests how the window behaves in queues: its own, and those that others fill.
#include "rdma_engine/worker/window.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

namespace jaxina {
namespace {

constexpr Nanoseconds kMs = 1'000'000;
constexpr WindowLimits kLimits{.first = 16, .standing = 4 * kMs};
constexpr std::uint32_t kSlots = 256;

// A window whose passes all take one round trip. It depends on how many are in flight.
struct Path {
  explicit Path(std::function<Nanoseconds(std::uint32_t)> round_trip) : round_trip(std::move(round_trip)) {}
  void run(int round_trips) {
    for (int i = 0; i < round_trips; ++i) {
      const std::uint32_t passes = window.passes();
      const Nanoseconds sent = now;
      now += round_trip(passes);
      for (std::uint32_t pass = 0; pass < passes; ++pass) window.on_result(sent, now);
      most = std::max(most, window.passes());
      least = std::min(least, window.passes());
    }
  }
  Window window{kLimits, kSlots};
  std::function<Nanoseconds(std::uint32_t)> round_trip;
  Nanoseconds now = 0;
  std::uint32_t most = 0, least = kSlots;
};

TEST(Window, ItDoesNotCompeteWithItsOwnQueue) {
  Path path([](std::uint32_t passes) { return passes * kMs; });
  path.run(8);
  path.most = 0;
  path.run(1000);
  EXPECT_LT(path.most, 2 * kLimits.first);
  EXPECT_EQ(path.least, kLimits.first / 4) << "it has looked whose queue it is";
  const std::uint32_t before = path.window.passes();
  path.window.on_loss(path.now, path.now);
  EXPECT_EQ(path.window.passes(), before);
}

TEST(Window, ItCompetesWithOthersWhoFillTheQueue) {
  Path path([](std::uint32_t) { return 10 * kMs; });
  path.run(40);
  const std::uint32_t grown = path.window.passes();
  EXPECT_GT(grown, 8 * kLimits.first);
  path.window.on_loss(path.now, path.now);
  EXPECT_EQ(path.window.passes(), grown / 2);
  path.window.on_loss(path.now - 1, path.now);
  EXPECT_EQ(path.window.passes(), grown / 2) << "sent before the decrease, so it tells of the same queue";
  path.run(10);
  EXPECT_EQ(path.window.passes(), grown / 2 + 10) << "one per round trip";
}

TEST(Window, ItStopsCompetingWhenTheOthersHaveGone) {
  bool others = true;
  Path path([&](std::uint32_t passes) { return others ? 10 * kMs : kMs + passes * kMs / 10; });
  path.run(40);
  EXPECT_GT(path.window.passes(), 4 * kLimits.first);
  others = false;
  path.run(100);
  path.most = 0;
  path.run(1000);
  EXPECT_LT(path.most, 2 * 30u) << "round trips of 4 ms have 30 passes";
}

TEST(Window, LossesDuringAProbeChangeNothing) {
  Path path([](std::uint32_t) { return 10 * kMs; });
  while (path.window.passes() >= kLimits.first) path.run(1);
  EXPECT_EQ(path.window.passes(), kLimits.first / 4);
  path.window.on_loss(path.now, path.now);
  EXPECT_EQ(path.window.passes(), kLimits.first / 4);
  path.run(1);
  EXPECT_GE(path.window.passes(), kLimits.first);
}

TEST(Window, AnotherWayOrAnOverflowEndsAProbe) {
  for (const bool overflows : {false, true}) {
    Path path([](std::uint32_t) { return 10 * kMs; });
    while (path.window.passes() >= kLimits.first) path.run(1);
    if (overflows) {
      path.window.on_overflow();
      EXPECT_LT(path.window.passes(), kLimits.first);
      EXPECT_GT(path.window.passes(), kLimits.first / 4);
    } else {
      path.window.on_rerouted();
      EXPECT_EQ(path.window.passes(), kLimits.first);
    }
  }
}

}  // namespace
}  // namespace jaxina
