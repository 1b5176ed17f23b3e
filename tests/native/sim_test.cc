// Tests the simulator itself: a seed replays, its oracles are right, and a few thousand seeds pass.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>

#include "rdma_engine/sim/campaign.h"
#include "tests/native/reference.h"

namespace jaxina::sim {
namespace {

TEST(Simulator, SameSeedSameLog) {
  std::set<std::uint64_t> hashes;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    for (const Scenario& scenario : {scenarios()[0], *scenario_named("hostile")}) {
      const Outcome first = simulate(scenario, seed), second = simulate(scenario, seed);
      EXPECT_EQ(first.log_hash, second.log_hash) << seed;
      EXPECT_EQ(first.virtual_time, second.virtual_time) << seed;
      hashes.insert(first.log_hash);
    }
  }
  EXPECT_EQ(hashes.size(), 400u);
}

TEST(Simulator, TracingAndThreadsChangeNothing) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Trace trace;
    const Outcome traced = simulate(scenarios()[0], seed, &trace);
    EXPECT_EQ(traced.log_hash, simulate(scenarios()[0], seed).log_hash) << seed;
    EXPECT_EQ(trace.text().find(", slot ") != std::string::npos, traced.network.sent > 0) << seed;
  }
  EXPECT_EQ(run_campaign(scenarios()[0], 0, 100, 1).total.log_hash,
            run_campaign(scenarios()[0], 0, 100, 3).total.log_hash);
}

TEST(Simulator, ExpectedSumAgreesWithTheOtherReference) {
  Random random(5);
  for (int i = 0; i < 300; ++i) {
    const auto workers = static_cast<std::size_t>(random.range(1, 9)),
               count = static_cast<std::size_t>(random.range(1, 60));
    const auto block = static_cast<std::size_t>(random.range(1, 20));
    std::vector<std::vector<float>> floats(workers);
    std::vector<Words> words(workers);
    for (std::size_t w = 0; w < workers; ++w) {
      floats[w] = jaxina::testing::random_gradient(count, random.next());
      if (random.one_in(3)) floats[w][random.below(count)] = random.one_in(2) ? INFINITY : NAN;
      for (const float x : floats[w]) words[w].push_back(std::bit_cast<std::uint32_t>(x));
    }
    const std::vector<float> expected = jaxina::testing::all_reduce_reference(floats, block);
    const Words sum = expected_sum(ElementType::kFloat32, words, block);
    for (std::size_t e = 0; e < count; ++e) {
      EXPECT_TRUE(equal_bits(ElementType::kFloat32, sum[e], std::bit_cast<std::uint32_t>(expected[e])));
    }
  }
}

void expect_no_failures(const CampaignResult& result) {
  for (const Failure& failure : result.failures) ADD_FAILURE() << "seed " << failure.seed << ": " << failure.what;
}

TEST(Simulator, SwarmOfSeeds) {
  const CampaignResult result = run_campaign(scenarios()[0], 0, 3000, 1);
  expect_no_failures(result);
  EXPECT_EQ(result.seeds, 3000u);
  // The seeds must also reach the situations that they are meant for.
  EXPECT_GT(result.total.sums, 50'000u);
  EXPECT_GT(result.total.retransmissions, 50'000u);
  EXPECT_GT(result.total.network.lost, 50'000u);
  EXPECT_GT(result.total.network.corrupted, 10'000u);
  EXPECT_GT(result.total.hostile, 50'000u);
  EXPECT_GT(result.total.jobs_ended_early, 200u);
}

// If the switch did not tell that its buffer has overflowed, 70 % of the packets here would be sent again.
// A link may corrupt what another link has corrupted before. The second flip of a bit must not restore the packet.
TEST(Simulator, ACorruptPacketStaysCorrupt) {
  Random random(1);
  for (int i = 0; i < 10'000; ++i) {
    Packet packet;
    packet.size = 1;
    packet.bytes[0] = 0;
    corrupt(packet, random);
    corrupt(packet, random);
    ASSERT_TRUE(packet.origin.altered);
    ASSERT_TRUE(packet.size == 0 || packet.bytes[0] != 0);
  }
}

TEST(Simulator, ASmallReceiveBufferMakesWorkersSendLess) {
  const CampaignResult result = run_campaign(*scenario_named("incast"), 0, 40, 1);
  expect_no_failures(result);
  EXPECT_GT(result.total.network.overflowed, 1'000u);
  EXPECT_LT(result.total.retransmissions * 50, result.total.network.sent);
}

class ScenarioTest : public ::testing::TestWithParam<Scenario> {};

TEST_P(ScenarioTest, HoldsForSeeds) { expect_no_failures(run_campaign(GetParam(), 10'000, 10'200, 1)); }

INSTANTIATE_TEST_SUITE_P(Every, ScenarioTest, ::testing::ValuesIn(scenarios()), [](const auto& info) {
  std::string name(info.param.name);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace jaxina::sim
