// Tests how a worker chooses between a switch on the way and the server itself.
#include "rdma_engine/datagrams/switch_route.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace jaxina {
namespace {

using wire::Transmission;

Pass pass(std::uint16_t slot, std::uint32_t epoch, std::uint32_t sent_before = 0) {
  return {.slot = slot,
          .epoch = epoch,
          .fingerprint = 0,
          .words = 1,
          .exponents = 0,
          .phase = Phase::kData,
          .sent_before = sent_before};
}

constexpr bool kDirectly = true, kAllThroughSwitches = false;

// The passes of which the first transmission goes through the switch.
std::vector<std::uint32_t> through_switch(SwitchRoute& route, std::uint32_t epochs) {
  std::vector<std::uint32_t> found;
  for (std::uint32_t epoch = 0; epoch < epochs; ++epoch) {
    if (route.next(pass(3, epoch)) == Transmission::kFirst) found.push_back(epoch);
  }
  return found;
}

TEST(SwitchRoute, TheThirdTransmissionIsNotCombinedAndTheFourthIsDirect) {
  SwitchRoute route(4);
  EXPECT_EQ(route.next(pass(0, 0, 0)), Transmission::kFirst);
  EXPECT_EQ(route.next(pass(0, 0, 1)), Transmission::kAgain);
  EXPECT_EQ(route.next(pass(0, 0, 2)), Transmission::kUncombined);
  EXPECT_EQ(route.next(pass(0, 0, 3)), Transmission::kDirect);
  EXPECT_EQ(route.next(pass(0, 0, 9)), Transmission::kDirect);
}

// A switch may hold a first transmission in vain. A second one comes to the server as the other worker's has, if that
// one came alone; it is on its way.
TEST(SwitchRoute, AToldWorkerSendsAgainWhatASwitchMayHold) {
  for (const bool directly : {true, false}) {
    SwitchRoute route(4);
    route.next(pass(0, 7, 0));
    EXPECT_TRUE(route.on_told(0, 7, directly));
    EXPECT_EQ(route.next(pass(0, 7, 1)), Transmission::kUncombined);
    EXPECT_FALSE(route.on_told(0, 7, directly));
    route.next(pass(1, 7, 1));
    EXPECT_EQ(route.on_told(1, 7, directly), directly);
    route.on_told(2, 7, directly);
    EXPECT_EQ(route.next(pass(2, 7, 0)), Transmission::kUncombined) << "no switch can complete it";
  }
}

// Sends so many passes through the switch, and tells what their results say.
void passes(SwitchRoute& route, std::uint32_t count, bool came_directly) {
  for (std::uint32_t epoch = 0; epoch < count; ++epoch) {
    route.next(pass(3, epoch));
    route.on_result(3, came_directly);
  }
}

TEST(SwitchRoute, ASilentSwitchIsTriedByTheSamePassesOfAllWorkers) {
  constexpr std::uint32_t kEpochs = 100'000;
  SwitchRoute silent(4), refusing(4);
  passes(silent, 16, kDirectly);
  refusing.on_refusal();
  const std::vector<std::uint32_t> tries = through_switch(silent, kEpochs);
  EXPECT_NEAR(static_cast<double>(tries.size()), kEpochs / 16.0, kEpochs / 160.0);
  EXPECT_EQ(through_switch(refusing, kEpochs), tries);
  passes(silent, 240, kDirectly);
  const std::vector<std::uint32_t> fewer = through_switch(silent, kEpochs);
  EXPECT_NEAR(static_cast<double>(fewer.size()), kEpochs / 64.0, kEpochs / 640.0);
  EXPECT_TRUE(std::ranges::includes(tries, fewer)) << "so workers that are not as far agree on most";
  passes(silent, 10'000, kDirectly);
  const std::vector<std::uint32_t> fewest = through_switch(silent, kEpochs);
  EXPECT_NEAR(static_cast<double>(fewest.size()), kEpochs / 256.0, kEpochs / 2560.0);
  EXPECT_TRUE(std::ranges::includes(fewer, fewest));
  silent.on_result(3, kAllThroughSwitches);
  EXPECT_EQ(through_switch(silent, kEpochs).size(), kEpochs);
}

TEST(SwitchRoute, ItTellsOnceThatPassesGoDirectlyNow) {
  SwitchRoute silent(4), refusing(4);
  const auto goes_directly = [](SwitchRoute& route, std::uint32_t epoch) {
    route.next(pass(3, epoch));
    return route.on_result(3, kDirectly);
  };
  for (std::uint32_t epoch = 0; epoch < 2000; ++epoch) EXPECT_EQ(goes_directly(silent, epoch), epoch == 15) << epoch;
  EXPECT_TRUE(refusing.on_refusal());
  EXPECT_FALSE(refusing.on_refusal());
  EXPECT_FALSE(refusing.on_result(3, kAllThroughSwitches));
  EXPECT_TRUE(refusing.on_refusal()) << "the switch has helped in between";
}

TEST(SwitchRoute, SomePassesThatWentDirectlyAreNoSilence) {
  SwitchRoute route(4);
  for (int rounds = 0; rounds < 100; ++rounds) {
    passes(route, 15, kDirectly);
    passes(route, 1, kAllThroughSwitches);
  }
  EXPECT_EQ(route.next(pass(1, 1)), Transmission::kFirst);
}

// While the switches are tried again, passes are in flight that were sent directly from the start. Their results say
// nothing of the switches.
TEST(SwitchRoute, PassesThatWereSentDirectlySayNothing) {
  SwitchRoute route(64);
  route.on_refusal();
  std::vector<std::uint16_t> sent_directly;
  for (std::uint16_t slot = 0; slot < 40; ++slot) {
    if (route.next(pass(slot, 1)) == Transmission::kDirect) sent_directly.push_back(slot);
  }
  EXPECT_GT(sent_directly.size(), 30u);
  route.on_result(50, kAllThroughSwitches);
  for (const std::uint16_t slot : sent_directly) route.on_result(slot, kDirectly);
  EXPECT_EQ(route.next(pass(1, 2)), Transmission::kFirst);
}

// Two workers have seen different things of the switch, so one sends directly and the other does not. The results,
// which are the same for both, bring them together.
TEST(SwitchRoute, WorkersThatDisagreeAgreeSoon) {
  SwitchRoute refused(1), other(1);
  refused.on_refusal();
  int apart = 0;
  for (std::uint32_t epoch = 1; epoch < 1'000; ++epoch) {
    const bool both = refused.next(pass(0, epoch)) == other.next(pass(0, epoch));
    apart += both ? 0 : 1;
    const bool through = refused.next(pass(0, epoch)) == Transmission::kFirst && both;
    for (SwitchRoute* route : {&refused, &other}) route->on_result(0, !through);
  }
  EXPECT_GT(apart, 0);
  EXPECT_LE(apart, 16);
  EXPECT_EQ(refused.next(pass(0, 1'001)), Transmission::kFirst) << "one of 256 passes has found the switch at work";
}

}  // namespace
}  // namespace jaxina
