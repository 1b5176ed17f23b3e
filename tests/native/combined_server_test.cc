// Tests a server that takes the sums of groups from switches.
#include "tests/native/combiner_fixture.h"

namespace jaxina {
namespace {

using namespace testing;

TEST_F(ServerTest, AddsDisjointSets) {
  EXPECT_TRUE(deliver(2, 1, 2).empty());
  const std::vector<Sent> sent = deliver(kFirstTwo, 10, kSwitch);
  ASSERT_EQ(sent.size(), 2u);  // to the switch for two workers, and to the one that came directly
  EXPECT_EQ(sent[0].to, address(kSwitch));
  EXPECT_EQ(sent[1].to, address(2));
  EXPECT_EQ(sent[0].words(), std::vector<std::uint32_t>{11});
  EXPECT_EQ(updates(), kWorkers);
}

TEST_F(ServerTest, ASetThatHoldsAllTakesTheirPlace) {
  deliver(2, 1, 2);
  EXPECT_EQ(deliver(kAll, 100, kSwitch)[0].words(), std::vector<std::uint32_t>{100});
  EXPECT_EQ(updates(), kWorkers);
  EXPECT_EQ(deliver(kFirstTwo, 10, kSwitch)[0].words(), std::vector<std::uint32_t>{100});  // the result again
}

TEST_F(ServerTest, RefusesASetThatOverlapsAndSaysWhoIsMissing) {
  deliver(0, 1, 0);
  deliver(2, 1, 2);
  const std::vector<Sent> sent = deliver(kFirstTwo, 10, kSwitch);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].to, address(kSwitch));
  EXPECT_EQ(sent[0].header.kind, wire::Kind::kPending);
  EXPECT_EQ(sent[0].header.worker, wire::kAllWorkers);
  EXPECT_EQ(sent[0].bytes[wire::kHeaderSize], 0b101);
  EXPECT_EQ(updates(), 2u);
  EXPECT_EQ(deliver(1, 5, 1)[0].words(), std::vector<std::uint32_t>{7});
}

TEST_F(ServerTest, ASubsetIsADuplicate) {
  deliver(kFirstTwo, 10, kSwitch);
  EXPECT_EQ(deliver(0, 1, 0)[0].header.kind, wire::Kind::kPending);
  EXPECT_EQ(deliver(kFirstTwo, 10, kSwitch)[0].header.kind, wire::Kind::kPending);
  EXPECT_EQ(updates(), 2u);
}

TEST_F(ServerTest, ASumCountsOnlyFromTheJobsSwitches) {
  EXPECT_TRUE(deliver(kAll, 10, kStranger).empty());
  EXPECT_TRUE(deliver(wire::kFirstGroup + 2, 10, kSwitch).empty());  // no such group
  EXPECT_EQ(updates(), 0u);
}

}  // namespace
}  // namespace jaxina
