// Tests a switch that combines updates: the rule of its entries, what it sends on, and what changes nothing.
#include <algorithm>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "tests/native/combiner_fixture.h"

namespace jaxina {
namespace {

using namespace testing;

Contribution contribution(std::uint32_t child, std::uint32_t epoch, bool may_claim = true, std::uint32_t job = 1) {
  return {
      .pass = {.job = job, .epoch = epoch, .fingerprint = 7}, .child = child, .children = 2, .may_claim = may_claim};
}

TEST(EntryTable, HasAPrimeNumberOfEntries) {
  constexpr std::uint32_t kExpected[][2] = {{0, 0}, {1, 1}, {2, 2}, {3, 3}, {4, 5}, {9, 11}, {512, 521}, {1024, 1031}};
  for (const auto [wanted, entries] : kExpected) EXPECT_EQ(prime_entries(wanted), entries);
}

TEST(EntryRule, ChildrenJoinAndAreCountedOnce) {
  Entry entry;
  const auto apply = [&](std::uint32_t child, bool may_claim = true) {
    return apply_to_entry(entry, contribution(child, 0, may_claim), 5, kLifetime);
  };
  EXPECT_EQ(apply(0, false).verdict, EntryVerdict::kPass);  // a retransmission does not claim
  EXPECT_EQ(apply(0).verdict, EntryVerdict::kClaim);
  EXPECT_EQ(apply(0).verdict, EntryVerdict::kAbsorb);
  EXPECT_EQ(apply(0, false).verdict, EntryVerdict::kAbsorb);
  const EntryOutcome last = apply(1, false);  // but it joins
  EXPECT_EQ(last.verdict, EntryVerdict::kJoin);
  EXPECT_TRUE(last.completes);
  EXPECT_EQ(apply(0, false).verdict, EntryVerdict::kRepeat);
}

TEST(EntryRule, AnotherPassWaitsForTheResultOrTheLifetime) {
  Entry entry;
  apply_to_entry(entry, contribution(0, 0), 5, kLifetime);
  for (const Contribution& other : {contribution(1, 1), contribution(1, 0, true, 2)}) {
    EXPECT_EQ(apply_to_entry(entry, other, 5 + kLifetime, kLifetime).verdict, EntryVerdict::kPass);
    EXPECT_FALSE(release(entry, other.pass, 6, kLifetime));
  }
  Entry expired = entry;
  const EntryOutcome taken = apply_to_entry(expired, contribution(1, 1), 6 + kLifetime, kLifetime);
  EXPECT_EQ(taken.verdict, EntryVerdict::kClaim);
  EXPECT_TRUE(taken.expired);
  EXPECT_TRUE(release(entry, contribution(0, 0).pass, 6, kLifetime));
  const EntryOutcome free = apply_to_entry(entry, contribution(1, 1), 6, kLifetime);
  EXPECT_EQ(free.verdict, EntryVerdict::kClaim);
  EXPECT_FALSE(free.expired);
}

// Otherwise one part of the pass would wait at the server and the other at the switch, until a timeout.
TEST(EntryRule, APassThatFoundTheEntryTakenDoesNotClaimItLater) {
  Entry entry;
  apply_to_entry(entry, contribution(0, 0), 5, kLifetime);
  EXPECT_EQ(apply_to_entry(entry, contribution(0, 1), 6, kLifetime).verdict, EntryVerdict::kPass);
  EXPECT_TRUE(release(entry, contribution(0, 0).pass, 7, kLifetime));
  EXPECT_EQ(apply_to_entry(entry, contribution(1, 1), 8, kLifetime).verdict, EntryVerdict::kPass);
  EXPECT_EQ(apply_to_entry(entry, contribution(0, 2), 9, kLifetime).verdict, EntryVerdict::kClaim);
  EXPECT_EQ(apply_to_entry(entry, contribution(1, 1), 9, kLifetime).verdict, EntryVerdict::kPass);
  EXPECT_EQ(apply_to_entry(entry, contribution(1, 2), 9, kLifetime).verdict, EntryVerdict::kJoin);
}

TEST(EntryTable, JobsBeginFarFromEachOther) {
  constexpr std::uint32_t kEntries = 512, kJobs = 8, kSlots = 4;
  EntryTable table({.entries = kEntries, .packet_bytes = 4}, kLifetime);
  for (std::uint32_t first = 1; first < 100; ++first) {  // jobs come and go, and numbers only grow
    std::vector<std::size_t> begins;
    for (std::uint32_t job = first; job < first + kJobs; ++job) begins.push_back(table.index_of({.job = job}));
    std::sort(begins.begin(), begins.end());
    begins.push_back(begins.front() + kEntries);
    for (std::size_t i = 1; i < begins.size(); ++i) EXPECT_GE(begins[i] - begins[i - 1], kEntries / kJobs / 2) << first;
    for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
      EXPECT_EQ(table.index_of({.job = first, .slot = slot}), (table.index_of({.job = first}) + slot) % kEntries);
    }
  }
}

TEST(EntryRule, APassDoesNotJoinAnEntryOlderThanTheLifetime) {
  Entry entry;
  apply_to_entry(entry, contribution(0, 0), 0, kLifetime);
  EXPECT_EQ(apply_to_entry(entry, contribution(1, 0, false), kLifetime + 1, kLifetime).verdict, EntryVerdict::kPass);
  EXPECT_EQ(apply_to_entry(entry, contribution(1, 0, true), kLifetime + 1, kLifetime).verdict, EntryVerdict::kClaim);
  EXPECT_EQ(entry.count, 1u);  // the contribution of child 0 is gone
  EXPECT_FALSE(release(entry, contribution(1, 0).pass, 3 * kLifetime, kLifetime));
}

TEST_F(CombinerTest, SendsOneSumForAllChildren) {
  EXPECT_TRUE(from_worker(0, 0).empty());
  EXPECT_TRUE(from_worker(2, 0).empty());
  EXPECT_TRUE(from_worker(2, 0, Transmission::kAgain).empty());
  const std::vector<Sent> sent = from_worker(1, 0);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].to, address(kOtherServer));
  EXPECT_EQ(sent[0].header.kind, wire::Kind::kCombined);
  EXPECT_EQ(sent[0].header.worker, wire::kFirstGroup + spec_.group);
  EXPECT_EQ(sent[0].header.code, static_cast<std::uint8_t>(Transmission::kFirst));
  EXPECT_EQ(sent[0].words(), (std::vector<std::uint32_t>{30, 33}));
  EXPECT_EQ(sent[0].bytes[wire::kHeaderSize], 52);  // the largest exponent
  const std::vector<Sent> again = from_worker(0, 0, Transmission::kAgain);
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].words(), sent[0].words());
  EXPECT_EQ(again[0].header.code, static_cast<std::uint8_t>(Transmission::kAgain));
  EXPECT_EQ(counted(Counter::kClaims), 1u);
  EXPECT_EQ(counted(Counter::kJoins), 2u);
  EXPECT_EQ(counted(Counter::kAbsorbed), 2u);
}

TEST_F(CombinerTest, AResultGoesToAllWorkersAndFreesTheEntry) {
  for (std::uint16_t worker = 0; worker < kWorkers; ++worker) from_worker(worker, 0);
  EXPECT_EQ(combiner_.entries_held(0), 1u);
  const std::vector<Sent> sent = deliver(result(0), kOtherServer);
  ASSERT_EQ(sent.size(), kWorkers);
  for (std::uint8_t worker = 0; worker < kWorkers; ++worker) {
    EXPECT_EQ(sent[worker].to, address(worker));
    EXPECT_EQ(sent[worker].bytes, result(0));
  }
  EXPECT_EQ(combiner_.entries_held(0), 0u);
  EXPECT_TRUE(from_worker(0, 1).empty());  // the next pass of the slot claims it
  EXPECT_EQ(deliver(result(0), kOtherServer).size(), kWorkers);
  EXPECT_EQ(combiner_.entries_held(0), 1u);  // the late result is of another pass
}

TEST_F(CombinerTest, NarrowWordsAreSentOnAndTheirResultsFreeNoEntry) {
  from_worker(0, 0);
  wire::Header narrow = header(1, 0);
  narrow.format = wire::Format::kInt8;
  const Bytes update = testing::packet(narrow, 10, 51);
  expect_sent_on(deliver(update, 1), update);
  narrow.kind = wire::Kind::kResult;
  narrow.worker = wire::kAllWorkers;
  EXPECT_EQ(deliver(testing::packet(narrow, 30, 52), kOtherServer).size(), 2u);
  EXPECT_EQ(combiner_.entries_held(0), 1u);
  EXPECT_EQ(counted(Counter::kReleased), 0u);
}

TEST_F(CombinerTest, SendsOnWhatItDoesNotCombine) {
  expect_sent_on(from_worker(0, 0, Transmission::kAgain), update(0, 0, Transmission::kAgain));
  expect_sent_on(from_worker(0, 0, Transmission::kUncombined), update(0, 0, Transmission::kUncombined));
  expect_sent_on(from_worker(0, 0, Transmission::kDirect), update(0, 0, Transmission::kDirect));
  from_worker(0, 0);
  expect_sent_on(from_worker(1, 1), update(1, 1));  // another pass has the entry
  EXPECT_EQ(counted(Counter::kCollisions), 2u);
  EXPECT_EQ(counted(Counter::kPassedOn), 2u);
}

TEST_F(CombinerTest, RefusesPacketsOfUnknownJobsAndDropsThoseThatDoNotFit) {
  wire::Header wrong = header(0, 0);
  wrong.job = 8;
  std::vector<Sent> sent = deliver(testing::packet(wrong, 1), kStranger);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].header.kind, wire::Kind::kRefused);
  wrong = header(0, 0);
  wrong.secret = 1;
  sent = deliver(testing::packet(wrong, 1), kStranger);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].header.kind, wire::Kind::kRefused);
  wrong.kind = wire::Kind::kResult;  // two switches do not answer each other's refusals
  EXPECT_TRUE(deliver(testing::packet(wrong, 1), kStranger).empty());
  wrong = header(0, 0);
  wrong.slot = 4;
  EXPECT_TRUE(deliver(testing::packet(wrong, 1), 0).empty());
  wrong = header(0, 0);
  wrong.words = 9;
  EXPECT_TRUE(deliver(testing::packet(wrong, 1), 0).empty());
  wrong = header(wire::kFirstGroup, 0);
  EXPECT_TRUE(deliver(testing::packet(wrong, 1), 0).empty());
  EXPECT_EQ(combiner_.entries_held(0), 0u);
}

// A server takes sums only from its switches. So a switch must not pass on a sum that somebody else has made.
TEST_F(CombinerTest, DropsSumsOfGroupsThatAreNotItsChildren) {
  wire::Header forged = header(wire::kFirstGroup, 0);
  forged.kind = wire::Kind::kCombined;
  for (const Transmission transmission : {Transmission::kFirst, Transmission::kAgain, Transmission::kUncombined}) {
    forged.code = static_cast<std::uint8_t>(transmission);
    EXPECT_TRUE(deliver(testing::packet(forged, 1), kStranger).empty());
  }
  EXPECT_EQ(counted(Counter::kForeign), 3u);
}

TEST_F(CombinerTest, ARegistrationDoesNotInheritEntries) {
  from_worker(0, 0);
  combiner_.remove(spec_.job);
  ASSERT_TRUE(combiner_.add(std::make_unique<CombinedJob>(spec_)));
  EXPECT_FALSE(combiner_.add(std::make_unique<CombinedJob>(spec_)));
  EXPECT_TRUE(from_worker(1, 0).empty());
  EXPECT_TRUE(from_worker(2, 0).empty());  // with the old contribution the sum would be complete
  const std::vector<Sent> sent = from_worker(0, 0);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].words(), (std::vector<std::uint32_t>{30, 33}));
}

// A job with many children and ways takes milliseconds to make and to free, which the thread that moves packets leaves
// to others.
TEST_F(CombinerTest, TakesAJobThatIsMadeAndGivesItBack) {
  auto made = std::make_unique<CombinedJob>(job_spec(8));
  const CombinedJob* const job = made.get();
  ASSERT_TRUE(combiner_.add(std::move(made)));
  EXPECT_EQ(combiner_.find(8), job);
  const std::unique_ptr<CombinedJob> removed = combiner_.remove(8);
  EXPECT_EQ(removed.get(), job);
  EXPECT_EQ(combiner_.find(8), nullptr);
  EXPECT_EQ(combiner_.remove(8), nullptr);
}

TEST_F(CombinerTest, TellsTheWorkersOfAnOverflowOnce) {
  for (std::uint16_t worker = 0; worker < kWorkers; ++worker) from_worker(worker, 0);
  combiner_.on_overflow();
  EXPECT_EQ(deliver(result(0), kOtherServer)[0].header.code, wire::kOverflowed);
  EXPECT_EQ(deliver(result(0), kOtherServer)[0].header.code, 0);
}

// IPv6 carries larger datagrams than the job's shape allows. A result with a changed code is copied, so its size must
// fit.
TEST_F(CombinerTest, DropsResultsLargerThanAPassOfTheJob) {
  from_worker(0, 0);
  combiner_.on_overflow();
  wire::Header large = header(wire::kAllWorkers, 0);
  large.kind = wire::Kind::kResult;
  for (const std::uint16_t words : {std::uint16_t{16'372}, std::uint16_t{11}}) {
    large.words = words;
    EXPECT_TRUE(deliver(testing::packet(large, 1), kOtherServer).empty());
  }
  large.words = 2;
  large.exponents = 9;
  EXPECT_TRUE(deliver(testing::packet(large, 1), kOtherServer).empty());
  EXPECT_EQ(counted(Counter::kTooLarge), 3u);
  EXPECT_EQ(counted(Counter::kReplies), 0u);
  EXPECT_EQ(deliver(result(0), kOtherServer)[0].header.code, wire::kOverflowed);  // the workers still learn of it
}

TEST_F(CombinerTest, AReplyToOneWorkerGoesToThatWorker) {
  from_worker(1, 0);
  wire::Header pending = header(1, 0);
  pending.kind = wire::Kind::kPending;
  pending.words = 0;
  pending.exponents = 0;
  const std::vector<Sent> sent = deliver(testing::packet(pending, 0), kOtherServer);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].to, address(1));
}

class EmptyTable : public CombinerTest {
 protected:
  EmptyTable() : CombinerTest(0) {}
};

TEST_F(EmptyTable, SendsEverythingOn) {
  expect_sent_on(from_worker(0, 0), update(0, 0));
  expect_sent_on(from_worker(1, 0), update(1, 0));
  EXPECT_EQ(deliver(result(0), kOtherServer).size(), 2u);  // nothing has come from worker 2
}

class HalfSentOn : public CombinerTest {
 protected:
  HalfSentOn() : CombinerTest(8, 1u << 15) {}
};

TEST_F(HalfSentOn, SendsAllPacketsOfHalfThePassesOn) {
  std::uint32_t combined = 0;
  constexpr std::uint32_t kPasses = 2'000;
  for (std::uint32_t epoch = 0; epoch < kPasses; ++epoch) {
    std::size_t sent = 0;
    for (std::uint16_t worker = 0; worker < kWorkers; ++worker) sent += from_worker(worker, epoch).size();
    EXPECT_TRUE(sent == 1 || sent == kWorkers) << sent;
    combined += sent == 1;
    deliver(result(epoch), kOtherServer);
  }
  EXPECT_NEAR(combined, 0.5 * kPasses, 0.05 * kPasses);
}

// A rival that wants every entry gets it once its lifetime has passed, though the job that had it is gone.
TEST_F(CombinerTest, NoEntryIsHeldAfterItsLifetime) {
  for (std::uint32_t epoch = 0; epoch < 3; ++epoch) from_worker(0, epoch);
  EXPECT_EQ(combiner_.entries_held(0), 1u);
  ASSERT_TRUE(combiner_.add(std::make_unique<CombinedJob>(job_spec(8))));
  for (std::uint16_t slot = 0; slot < 4; ++slot) {
    for (std::uint16_t worker = 0; worker < kWorkers; ++worker) {
      wire::Header claim = header(worker, 0);
      claim.job = 8;
      claim.slot = slot;
      const std::vector<Sent> sent = deliver(testing::packet(claim, 1), kStranger, kLifetime + 1);
      EXPECT_EQ(sent.size(), worker + 1 == kWorkers ? 1u : 0u);
    }
  }
  EXPECT_EQ(combiner_.find(8)->counters()[Counter::kCollisions], 0u);
}

// A server and a switch in front of it: forged results and sums from elsewhere, among them such with the right secret.
TEST_F(CombinerTest, AMillionForgedPacketsChangeNothing) {
  DatagramAggregator server;
  const JobSpec spec{.job = spec_.job, .secret = spec_.secret, .shape = spec_.shape};
  ASSERT_TRUE(server.add(std::make_unique<DatagramJob>(
      spec, Shard{},
      CombiningSwitches{.groups = {set_of({0, 1, 2}), set_of({0, 1})}, .addresses = {address(kSwitch)}})));
  from_worker(0, 0);
  std::mt19937 random(1);
  outbox_.keep = false;
  constexpr int kForged = 1'000'000;
  for (int i = 0; i < kForged; ++i) {
    wire::Header forged = header(static_cast<std::uint16_t>(wire::kFirstGroup + random() % 3), random() % 3);
    const bool knows_secret = i % 2 == 0;
    if (!knows_secret) forged.secret ^= 1 + random();
    const auto from = knows_secret ? kStranger : kSwitch;
    forged.kind = wire::Kind::kCombined;
    const Bytes sum = testing::packet(forged, random(), static_cast<std::uint8_t>(random()));
    server.on_packet(sum, address(from), outbox_);
    forged.kind = wire::Kind::kResult;
    forged.worker = wire::kAllWorkers;
    const Bytes reply = testing::packet(forged, random(), static_cast<std::uint8_t>(random()));
    combiner_.on_packet(reply, address(knows_secret ? kStranger : kOtherServer), 0, outbox_);
  }
  outbox_.keep = true;
  EXPECT_EQ(server.find(spec_.job)->counters()[Counter::kUpdates], 0u);
  EXPECT_EQ(combiner_.entries_held(0), 1u);
  // The sum goes on as if nothing had come.
  from_worker(1, 0);
  const std::vector<Sent> combined = from_worker(2, 0);
  ASSERT_EQ(combined.size(), 1u);
  server.on_packet(combined[0].bytes, address(kSwitch), outbox_);
  const std::vector<Sent> results = outbox_.take();
  ASSERT_EQ(results.size(), 1u);  // one for the switch
  EXPECT_EQ(results[0].to, address(kSwitch));
  EXPECT_EQ(results[0].words(), (std::vector<std::uint32_t>{30, 33}));
}

}  // namespace
}  // namespace jaxina
