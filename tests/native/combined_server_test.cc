// Tests a server that takes the sums of groups from switches.
#include <algorithm>

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

TEST_F(ServerTest, AResultSaysWhetherAnUpdateOfItsPassCameDirectly) {
  constexpr auto again = static_cast<std::uint8_t>(Transmission::kAgain);
  constexpr auto uncombined = static_cast<std::uint8_t>(Transmission::kUncombined);
  constexpr auto direct = static_cast<std::uint8_t>(Transmission::kDirect) | wire::kMarked;
  for (const bool directly : {false, true, false}) {
    deliver(kFirstTwo, 10, kSwitch, again);
    EXPECT_EQ(deliver(0, 1, 0, static_cast<std::uint8_t>(Transmission::kDirect))[0].header.kind, wire::Kind::kPending)
        << "it is counted already, so the switch has helped";
    const std::vector<Sent> sent = deliver(2, 1, 2, directly ? direct : uncombined);
    EXPECT_EQ(sent[0].header.kind, wire::Kind::kResult);
    EXPECT_EQ((sent[0].header.code & wire::kCameDirectly) != 0, directly);
    ++epoch_;
  }
}

// What others have sent of the pass may be lost, or an entry that can never be complete may hold it.
TEST_F(ServerTest, TellsAllWorkersOfAPassThatASwitchCannotComplete) {
  const auto code_of = [](Transmission transmission) { return static_cast<std::uint8_t>(transmission); };
  EXPECT_TRUE(deliver(0, 1, kSwitch).empty()) << "others' first transmissions are on their way";
  const std::vector<Sent> alone = deliver(1, 1, kSwitch, code_of(Transmission::kAgain));
  ASSERT_EQ(alone.size(), 1u);
  EXPECT_EQ(alone[0].to, address(kSwitch));
  EXPECT_EQ(alone[0].header.kind, wire::Kind::kPending);
  EXPECT_EQ(alone[0].header.worker, wire::kAllWorkers);
  EXPECT_EQ(alone[0].header.code, wire::kCameAlone);
  EXPECT_EQ(alone[0].bytes[wire::kHeaderSize], 0b11);
  const std::vector<Sent> waits = deliver(1, 1, kSwitch, code_of(Transmission::kUncombined));
  ASSERT_EQ(waits.size(), 2u) << "to all, and the answer to this worker";
  EXPECT_EQ(waits[0].header.worker, wire::kAllWorkers);
  EXPECT_EQ(waits[0].header.code, 0);
  EXPECT_EQ(waits[1].header.worker, 1);
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

// A packet processor cannot compute a CRC over the words that it adds.
TEST_F(ServerTest, ASumNeedsNoChecksumButAnUpdateDoes) {
  const auto without_checksum = [&](wire::Kind kind, std::uint16_t sender, std::uint8_t from) {
    Bytes bytes = packet({.kind = kind, .job = 7, .secret = 1, .worker = sender, .fingerprint = 5, .words = 1}, 10);
    std::fill_n(bytes.begin() + wire::kHeaderSize - 4, 4, std::uint8_t{0});
    server_.on_packet(bytes, address(from), outbox_);
    return outbox_.take();
  };
  EXPECT_TRUE(without_checksum(wire::Kind::kUpdate, 2, 2).empty());
  EXPECT_EQ(updates(), 0u);
  EXPECT_TRUE(without_checksum(wire::Kind::kCombined, kAll, kStranger).empty());
  EXPECT_EQ(updates(), 0u);
  EXPECT_EQ(without_checksum(wire::Kind::kCombined, kAll, kSwitch)[0].words(), std::vector<std::uint32_t>{10});
  EXPECT_EQ(updates(), kWorkers);
}

}  // namespace
}  // namespace jaxina
