// Tests how a worker chooses between a switch on the way and the server itself.
#include "rdma_engine/datagrams/switch_route.h"

#include <gtest/gtest.h>

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

// The passes of which the first transmission goes through the switch.
std::vector<std::uint32_t> through_switch(SwitchRoute& route, std::uint32_t epochs) {
  std::vector<std::uint32_t> found;
  for (std::uint32_t epoch = 0; epoch < epochs; ++epoch) {
    if (route.next(pass(3, epoch)) == Transmission::kFirst) found.push_back(epoch);
  }
  return found;
}

TEST(SwitchRoute, TheThirdTransmissionIsDirect) {
  SwitchRoute route;
  EXPECT_EQ(route.next(pass(0, 0, 0)), Transmission::kFirst);
  EXPECT_EQ(route.next(pass(0, 0, 1)), Transmission::kAgain);
  EXPECT_EQ(route.next(pass(0, 0, 2)), Transmission::kDirect);
  EXPECT_EQ(route.next(pass(0, 0, 9)), Transmission::kDirect);
}

TEST(SwitchRoute, ASilentSwitchIsTriedByTheSamePassesOfAllWorkers) {
  constexpr std::uint32_t kEpochs = 100'000;
  SwitchRoute silent, refusing;
  for (std::uint32_t again = 0; again < 32; ++again) silent.next(pass(0, again, 1));
  refusing.on_refusal();
  const std::vector<std::uint32_t> tries = through_switch(silent, kEpochs);
  EXPECT_NEAR(static_cast<double>(tries.size()), kEpochs / 256.0, kEpochs / 2560.0);
  EXPECT_EQ(through_switch(refusing, kEpochs), tries);
  silent.on_answer();
  EXPECT_EQ(through_switch(silent, kEpochs).size(), kEpochs);
}

TEST(SwitchRoute, SomeRetransmissionsAreNoSilence) {
  SwitchRoute route;
  for (std::uint32_t again = 0; again < 1'000; ++again) {
    route.next(pass(0, again, 1));
    if (again % 16 == 0) route.on_answer();
    EXPECT_EQ(route.next(pass(1, again)), Transmission::kFirst);
  }
}

}  // namespace
}  // namespace jaxina
