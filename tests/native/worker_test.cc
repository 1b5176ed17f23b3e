// Tests the worker, result by result. Results come in order, again, stale, late, or contradict the pass. Also tests
// timers, and many collectives over few slots.
#include "rdma_engine/worker/worker.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "tests/native/allocations.h"
#include "tests/native/reference.h"
#include "tests/native/small_shape.h"

namespace jaxina {
namespace {

using testing::SmallShape;

constexpr Nanoseconds kMs = 1'000'000;

// One pass that was sent, with its words and exponents in host byte order.
struct Transmission {
  Pass pass;
  std::vector<std::uint32_t> words;
  std::vector<std::uint8_t> exponents;
};

// Workers with a perfect network between them. The test itself sums their passes.
class Group {
 public:
  Group(std::uint32_t workers, const SmallShape& shape, TimerLimits timer = {}, std::uint32_t paths = 1,
        WindowLimits window = {}) {
    for (std::uint32_t w = 0; w < workers; ++w) {
      workers_.push_back(std::make_unique<Worker>(WorkerConfig{shape.of(workers), timer, paths, window}));
    }
  }
  Worker& operator[](std::size_t w) { return *workers_[w]; }
  std::size_t size() const { return workers_.size(); }

  static Transmission transmit(Worker& worker, const Pass& pass) {
    Transmission sent{pass, std::vector<std::uint32_t>(pass.words), std::vector<std::uint8_t>(pass.exponents)};
    worker.fill_exponents(pass, sent.exponents.data(), false);
    worker.fill_words(pass, sent.words.data(), numerics::Store::kWrite);
    return sent;
  }

  // Takes everything that the workers want to send, and returns the sums of the passes that are complete now.
  std::vector<Transmission> exchange(Nanoseconds now = 0) {
    std::vector<Transmission> complete;
    for (auto& worker : workers_) {
      while (const auto pass = worker->next_pass(now)) {
        const Transmission sent = transmit(*worker, *pass);
        auto& [sum, count] = pending_[{pass->slot, pass->epoch}];
        if (count++ == 0) {
          sum = sent;
        } else {
          EXPECT_EQ(sum.pass.fingerprint, pass->fingerprint);
          for (std::size_t i = 0; i < sum.words.size(); ++i) sum.words[i] += sent.words[i];
          for (std::size_t i = 0; i < sum.exponents.size(); ++i)
            sum.exponents[i] = std::max(sum.exponents[i], sent.exponents[i]);
        }
        if (count == workers_.size()) complete.push_back(sum);
      }
    }
    return complete;
  }
  static ResultVerdict give(Worker& worker, const Transmission& t, Nanoseconds now = 0) {
    return worker.on_result(result_of(t), now);
  }
  static Result result_of(const Transmission& t) {
    return {t.pass.slot,        t.pass.epoch,   t.pass.fingerprint, t.words.size(),
            t.exponents.size(), t.words.data(), t.exponents.data(), numerics::Order::kHost};
  }
  // Runs until all collectives are complete, and returns every pass.
  std::vector<Transmission> run() {
    std::vector<Transmission> all;
    for (auto passes = exchange(); !passes.empty(); passes = exchange()) {
      for (const Transmission& pass : passes) {
        for (auto& worker : workers_) EXPECT_EQ(give(*worker, pass), ResultVerdict::kAccepted);
        all.push_back(pass);
      }
    }
    return all;
  }

 private:
  std::vector<std::unique_ptr<Worker>> workers_;
  std::map<std::pair<std::uint16_t, std::uint32_t>, std::pair<Transmission, std::size_t>> pending_;
};

struct Floats {
  std::vector<std::vector<float>> in, out;
  Floats(std::size_t workers, std::size_t count, std::uint64_t seed) {
    for (std::size_t w = 0; w < workers; ++w) in.push_back(testing::random_gradient(count, seed + w));
    out.assign(workers, std::vector<float>(count, 99.0f));
  }
  Tensor tensor(std::size_t w) { return {ElementType::kFloat32, in[w].size(), in[w].data(), out[w].data()}; }
  void submit(Group& group) {
    for (std::size_t w = 0; w < group.size(); ++w) group[w].submit({{tensor(w)}});
  }
  void expect_exact(std::size_t block_size) const {
    const std::vector<float> expected = testing::all_reduce_reference(in, block_size);
    for (const auto& y : out) {
      for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_TRUE(testing::same(y[i], expected[i])) << i;
    }
  }
};

TEST(Worker, InOrder) {
  Group group(3, {.slots = 4, .block_size = 8, .blocks_per_chunk = 2});
  Floats floats(3, 300, 1);
  floats.submit(group);
  group.run();
  for (std::size_t w = 0; w < 3; ++w) EXPECT_EQ(group[w].pop_completed(), 1u);
  floats.expect_exact(8);
}

TEST(Worker, EveryPassTakesTheSlotsNextEpoch) {
  Group group(2, {.slots = 2, .block_size = 4, .blocks_per_chunk = 1});
  Floats floats(2, 40, 2);
  floats.submit(group);
  std::map<std::uint16_t, std::uint32_t> next;
  for (const Transmission& t : group.run()) EXPECT_EQ(t.pass.epoch, next[t.pass.slot]++);
  EXPECT_EQ(next[0], 6u) << "look-ahead and five chunks";
}

TEST(Worker, ManyCollectivesOverOneSlot) {
  Group group(2, {.slots = 1, .block_size = 4, .blocks_per_chunk = 2});
  std::vector<Floats> sums;
  for (std::size_t i = 0; i < 20; ++i) sums.emplace_back(2, 1 + 3 * i, 10 * i);
  for (Floats& sum : sums) sum.submit(group);
  group.run();
  EXPECT_EQ(group[0].pop_completed(), 20u);
  EXPECT_TRUE(group[0].idle());
  for (const Floats& sum : sums) sum.expect_exact(4);
}

TEST(Worker, EmptyCollectivesCompleteInTheirTurn) {
  Group group(2, {.slots = 2, .block_size = 4, .blocks_per_chunk = 1});
  Floats floats(2, 10, 3);
  floats.submit(group);
  for (std::size_t w = 0; w < 2; ++w) group[w].submit({});
  EXPECT_EQ(group[0].pop_completed(), 0u);
  group.run();
  EXPECT_EQ(group[0].pop_completed(), 2u);
  group[0].submit({{{ElementType::kInt32, 0, nullptr, nullptr}}});
  EXPECT_EQ(group[0].pop_completed(), 1u);
}

TEST(Worker, NonFiniteValuesTakeOneMorePass) {
  for (const bool in_place : {false, true}) {
    Group group(2, {.slots = 1, .block_size = 4, .blocks_per_chunk = 1});
    Floats floats(2, 12, 4);
    floats.in[0][5] = INFINITY;
    floats.in[1][6] = -INFINITY;
    floats.in[1][5] = in_place ? -INFINITY : 2.0f;
    const auto inputs = floats.in;
    for (std::size_t w = 0; w < 2; ++w) {
      Tensor tensor = floats.tensor(w);
      if (in_place) tensor.out = floats.in[w].data();
      group[w].submit({{tensor}});
    }
    EXPECT_EQ(group.run().size(), 5u) << "look-ahead, three chunks, flags of one";
    if (in_place) floats.out = floats.in;
    floats.in = inputs;
    floats.expect_exact(4);
  }
}

class OneChunk : public ::testing::Test {
 protected:
  OneChunk() {
    for (std::size_t w = 0; w < 2; ++w) group_[w].submit({{{ElementType::kInt32, 12, in_[w].data(), out_[w].data()}}});
    first_ = group_.exchange().at(0);
  }
  Group group_{2,
               {.slots = 1, .block_size = 4, .blocks_per_chunk = 1},
               {.initial = 20 * kMs, .minimum = kMs, .maximum = 200 * kMs}};
  std::vector<std::vector<std::uint32_t>> in_{std::vector<std::uint32_t>(12, 5), std::vector<std::uint32_t>(12, 7)};
  std::vector<std::vector<std::uint32_t>> out_{std::vector<std::uint32_t>(12), std::vector<std::uint32_t>(12)};
  Transmission first_;
};

TEST_F(OneChunk, DuplicateResultIsStale) {
  EXPECT_EQ(Group::give(group_[0], first_), ResultVerdict::kAccepted);
  EXPECT_EQ(Group::give(group_[0], first_), ResultVerdict::kStale) << "before the next pass is sent";
  ASSERT_TRUE(group_[0].next_pass(0));
  EXPECT_EQ(Group::give(group_[0], first_), ResultVerdict::kStale) << "and after";
  EXPECT_EQ(group_[0].progress().done, 1u);
}

TEST_F(OneChunk, ResultBeforeAnythingWasSentIsStale) {
  Worker fresh({.shape = SmallShape{.slots = 1, .block_size = 4, .blocks_per_chunk = 1}.of(2), .timer = {}});
  EXPECT_EQ(Group::give(fresh, first_), ResultVerdict::kStale);
  fresh.submit({{{ElementType::kInt32, 12, in_[0].data(), out_[0].data()}}});
  EXPECT_EQ(Group::give(fresh, first_), ResultVerdict::kStale);
}

TEST_F(OneChunk, FutureResultIsStale) {
  Transmission future = first_;
  ++future.pass.epoch;
  EXPECT_EQ(Group::give(group_[0], future), ResultVerdict::kStale);
}

TEST_F(OneChunk, ContradictingResultsChangeNothing) {
  Transmission other = first_;
  other.pass.fingerprint ^= 1;
  EXPECT_EQ(Group::give(group_[0], other), ResultVerdict::kContradicts);
  other = first_;
  other.words.pop_back();
  EXPECT_EQ(Group::give(group_[0], other), ResultVerdict::kContradicts);
  other = first_;
  other.exponents.push_back(0);
  EXPECT_EQ(Group::give(group_[0], other), ResultVerdict::kContradicts);
  other = first_;
  other.pass.slot = 1;
  EXPECT_EQ(Group::give(group_[0], other), ResultVerdict::kContradicts);
  EXPECT_EQ(group_[0].progress().done, 0u);
  EXPECT_EQ(Group::give(group_[0], first_), ResultVerdict::kAccepted);
}

TEST_F(OneChunk, TimeoutSendsTheSamePassAgainLaterAndLater) {
  Nanoseconds now = 0, last = 0;
  for (int attempt = 1; attempt <= 6; ++attempt) {
    ASSERT_TRUE(group_[0].next_deadline());
    const Nanoseconds wait = *group_[0].next_deadline() - now;
    EXPECT_GE(wait, last);
    EXPECT_LE(wait, 200 * kMs);
    group_[0].on_tick(now + wait - 1);
    EXPECT_FALSE(group_[0].next_pass(now + wait - 1));
    now += last = wait;
    group_[0].on_tick(now);
    const auto again = group_[0].next_pass(now);
    ASSERT_TRUE(again);
    EXPECT_TRUE(again->retransmission());
    EXPECT_EQ(again->epoch, first_.pass.epoch);
    EXPECT_EQ(Group::transmit(group_[0], *again).words, std::vector<std::uint32_t>(4, 5));
  }
  EXPECT_EQ(group_[0].retransmissions(), 6u);
}

TEST_F(OneChunk, LateResultCancelsTheRetransmission) {
  group_[0].on_tick(20 * kMs);  // the pass has timed out, but is not sent again yet
  EXPECT_EQ(Group::give(group_[0], first_, 21 * kMs), ResultVerdict::kAccepted);
  const auto next = group_[0].next_pass(21 * kMs);
  ASSERT_TRUE(next);
  EXPECT_EQ(next->epoch, 1u);
  EXPECT_FALSE(next->retransmission());
  EXPECT_FALSE(group_[0].next_pass(21 * kMs));
}

TEST_F(OneChunk, ANoticeDelaysTheRetransmission) {
  group_[0].on_pending(0, 0, 15 * kMs);
  group_[0].on_tick(20 * kMs);
  EXPECT_FALSE(group_[0].next_pass(20 * kMs));
  group_[0].on_pending(0, 1, 30 * kMs);  // for a pass that is not in flight
  group_[0].on_pending(1, 0, 30 * kMs);  // for a slot that does not exist
  group_[0].on_tick(55 * kMs);
  EXPECT_TRUE(group_[0].next_pass(55 * kMs));
}

// The results of slots 1, 3 and 5 come before that of slot 0. On one path they have overtaken slot 0's pass. With two
// paths they have not, because even slots have a path of their own.
TEST(Worker, APassIsLostWhenLaterOnesOfItsPathAreAnswered) {
  for (const std::uint32_t paths : {1u, 2u}) {
    Group group(1, {.slots = 6, .block_size = 4, .blocks_per_chunk = 1}, {.reordering = 3}, paths);
    Floats floats(1, 6 * 4, 5);
    floats.submit(group);
    const std::vector<Transmission> all = group.exchange();
    ASSERT_EQ(all.size(), 6u);
    for (const std::size_t slot : {1, 3, 5}) Group::give(group[0], all[slot]);
    std::vector<std::uint16_t> again;
    while (const auto pass = group[0].next_pass(0)) {
      if (pass->retransmission()) again.push_back(pass->slot);
    }
    EXPECT_EQ(again, paths == 1 ? std::vector<std::uint16_t>({0, 2}) : std::vector<std::uint16_t>{});
  }
}

TEST(Layout, NarrowWordsNeedEquallyManyDevicesInEachProcess) {
  // Of four devices, one process has one and the other three: four divide by two all the same.
  const JobShape shape({.devices = 4, .workers = 2, .slots = 2, .block_size = 8, .blocks_per_chunk = 4});
  std::vector<float> memory(8);
  const Collective one{{{ElementType::kFloat32, 8, memory.data(), memory.data(), false, numerics::WireWord::kInt8}}};
  EXPECT_EQ(Layout({one, one}, shape).chunks(), 1u);
  for (const std::size_t devices : {1u, 3u}) {
    try {
      Layout(std::vector<Collective>(devices, one), shape);
      FAIL() << devices << " devices were taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.status().code, ErrorCode::kInvalidArgument);
      EXPECT_NE(error.status().message.find("equally many devices"), std::string::npos) << error.what();
    }
  }
}

TEST(Layout, EqualBlocksAreWholeBlocksOfOneTensorInOneChunk) {
  const JobShape shape = SmallShape{.slots = 2, .block_size = 8, .blocks_per_chunk = 4}.of(1);
  std::vector<float> memory(64);
  const auto floats = [&](std::size_t count) {
    return Tensor{ElementType::kFloat32, count, memory.data(), memory.data()};
  };
  const Tensor integers{ElementType::kInt32, 16, memory.data(), memory.data()};
  // The first tensor has 6 blocks, the last of them short; the second has none, the third has 2, and the fourth has 3.
  const Layout layout({{{floats(44), floats(0), integers, floats(24)}}}, shape);
  using Run = std::array<std::size_t, 4>;  // tensor, offset, index, blocks
  const auto runs = [&](std::size_t chunk) {
    std::vector<Run> result;
    Layout::Cursor cursor = layout.blocks_of(chunk);
    while (const std::optional<Block> block = cursor.block()) {
      result.push_back({block->tensor, block->offset, block->index, cursor.equal_blocks()});
      cursor.advance(cursor.equal_blocks());
    }
    EXPECT_FALSE((cursor.advance(1), cursor.block()));
    return result;
  };
  ASSERT_EQ(layout.chunks(), 3u);
  EXPECT_EQ(runs(0), (std::vector<Run>{{0, 0, 0, 4}}));
  EXPECT_EQ(runs(1), (std::vector<Run>{{0, 4u * 32, 0, 1}, {0, 4u * 40, 1, 1}, {2, 0, 2, 2}}));
  EXPECT_EQ(runs(2), (std::vector<Run>{{3, 0, 0, 3}}));
}

std::vector<std::uint16_t> slots_sent(Worker& worker, Nanoseconds now) {
  std::vector<std::uint16_t> slots;
  while (const auto pass = worker.next_pass(now)) slots.push_back(pass->slot);
  return slots;
}

// Slot 0's pass is overtaken and sent again, after all others. Its result may answer the first transmission. So it says
// nothing about passes that were sent between the two transmissions.
TEST(Worker, TheResultOfARetransmissionOvertakesNothing) {
  Group group(1, {.slots = 6, .block_size = 4, .blocks_per_chunk = 1}, {.reordering = 3});
  std::vector<std::uint32_t> in(6 * 4, 1), out(in.size());
  group[0].submit({{{ElementType::kInt32, in.size(), in.data(), out.data()}}});
  const std::vector<Transmission> all = group.exchange();
  ASSERT_EQ(all.size(), 6u);
  Group::give(group[0], all[3]);
  EXPECT_EQ(slots_sent(group[0], 0), std::vector<std::uint16_t>{0});
  Group::give(group[0], all[0]);
  EXPECT_EQ(slots_sent(group[0], 0), std::vector<std::uint16_t>{});
}

// Nothing is answered, so the worker cannot tell whether another worker is late or packets are lost. It sends one pass
// again, then two, then four, after longer and longer times. If a notice says that the aggregator has a pass, another
// worker is late.
TEST(Worker, SilenceIsProbedAndNotFlooded) {
  for (const bool noticed : {false, true}) {
    Group group(2, {.slots = 12, .block_size = 4, .blocks_per_chunk = 1},
                {.initial = 10 * kMs, .minimum = kMs, .maximum = 100 * kMs});
    std::vector<std::uint32_t> in(12 * 4, 1), out(in.size());
    group[0].submit({{{ElementType::kInt32, in.size(), in.data(), out.data()}}});
    EXPECT_EQ(slots_sent(group[0], 0).size(), 12u);
    std::vector<std::size_t> again;
    std::vector<Nanoseconds> times;
    for (Nanoseconds now = 0; now <= 250 * kMs; now += kMs) {
      group[0].on_tick(now);
      const std::vector<std::uint16_t> slots = slots_sent(group[0], now);
      if (slots.empty()) continue;
      times.push_back(now / kMs);
      again.push_back(slots.size());
      for (const std::uint16_t slot : slots) {
        if (noticed) group[0].on_pending(slot, 0, now);
      }
    }
    EXPECT_EQ(times, (std::vector<Nanoseconds>{10, 30, 70, 150, 250}));
    EXPECT_EQ(again, noticed ? std::vector<std::size_t>({1, 1, 1, 1, 1}) : std::vector<std::size_t>({1, 2, 4, 8, 12}));
  }
}

// A pass that later ones have overtaken is lost, however often it was sent again. It is sent at once, without the
// growing waits that follow silence.
TEST(Worker, AnOvertakenPassIsSentAgainWithoutProbing) {
  Group group(1, {.slots = 12, .block_size = 4, .blocks_per_chunk = 1},
              {.initial = 10 * kMs, .minimum = kMs, .reordering = 3});
  std::vector<std::uint32_t> in(100 * 12 * 4, 1), out(in.size());
  group[0].submit({{{ElementType::kInt32, in.size(), in.data(), out.data()}}});
  // Sends what is ready. All passes but slot 0's arrive, and their results come back.
  const auto lose_slot_0 = [&](bool noticed) {
    std::vector<Transmission> sent;
    while (const auto pass = group[0].next_pass(0)) sent.push_back(Group::transmit(group[0], *pass));
    if (noticed) group[0].on_pending(0, 0, 0);
    for (const Transmission& t : sent) {
      if (t.pass.slot != 0) Group::give(group[0], t);
    }
    return std::count_if(sent.begin(), sent.end(), [](const Transmission& t) { return t.pass.slot == 0; });
  };
  for (std::uint64_t times = 0; times < 5; ++times) {
    EXPECT_EQ(lose_slot_0(false), 1);
    EXPECT_EQ(group[0].retransmissions(), times);
  }
  // With a notice, the aggregator has the pass and waits for another worker. Sending it again would gain nothing.
  EXPECT_EQ(lose_slot_0(true), 1);
  EXPECT_EQ(lose_slot_0(false), 0);
}

// A slot that a loss has thrown back goes first, so that all workers have the same passes in flight.
TEST(Worker, ReadyPassesAreSentInTheOrderOfTheStream) {
  Group group(1, {.slots = 4, .block_size = 4, .blocks_per_chunk = 1});
  std::vector<std::uint32_t> in(12 * 4, 1), out(in.size());
  group[0].submit({{{ElementType::kInt32, in.size(), in.data(), out.data()}}});
  const std::vector<Transmission> all = group.exchange();
  for (const std::size_t slot : {2, 1, 3, 0}) Group::give(group[0], all[slot]);
  EXPECT_EQ(slots_sent(group[0], 0), (std::vector<std::uint16_t>{0, 1, 2, 3}));
}

TEST(Worker, TheWindowGrowsWithResultsAndShrinksWithAStandingQueue) {
  Group group(1, {.slots = 8, .block_size = 4, .blocks_per_chunk = 1}, {}, 1, {.first = 2, .standing = kMs});
  std::vector<std::uint32_t> in(100 * 4, 1), out(in.size());
  group[0].submit({{{ElementType::kInt32, in.size(), in.data(), out.data()}}});
  Nanoseconds now = 0;
  std::vector<std::size_t> sizes;
  for (const Nanoseconds round_trip : {kMs / 2, kMs / 2, kMs / 2, 2 * kMs, 2 * kMs, 2 * kMs}) {
    const std::vector<Transmission> sent = group.exchange(now);
    sizes.push_back(group[0].in_flight());
    now += round_trip;
    for (const Transmission& t : sent) Group::give(group[0], t, now);
  }
  EXPECT_EQ(std::vector<std::size_t>(sizes.begin(), sizes.begin() + 4), (std::vector<std::size_t>{2, 4, 8, 8}));
  EXPECT_LE(sizes.back(), 4u);
  EXPECT_GE(sizes.back(), 2u);
}

// The window holds one pass, and slot 1's pass fills it. Another worker's window is full of slot 0's pass, and that
// worker waits for slot 0's pass of this one.
TEST(Worker, APassThatOthersWaitForIsSentEvenIfTheWindowIsFull) {
  Group group(1, {.slots = 2, .block_size = 1, .blocks_per_chunk = 1}, {.initial = kMs, .minimum = kMs, .maximum = kMs},
              1, {.first = 2});
  Worker& worker = group[0];
  std::vector<std::uint32_t> in(2, 1), out(2);
  worker.submit({{{ElementType::kInt32, 2, in.data(), out.data()}}});
  EXPECT_EQ(slots_sent(worker, 0), (std::vector<std::uint16_t>{0, 1}));
  worker.on_overflow();
  worker.on_tick(2 * kMs);  // nothing has come, so slot 0's pass is taken for lost
  ASSERT_EQ(worker.in_flight(), 1u) << "slot 1's still fills the window, and waits for another worker";
  EXPECT_EQ(slots_sent(worker, 2 * kMs), std::vector<std::uint16_t>{0});
}

TEST(Worker, OtherPassesAreNotSentWhileTheWindowIsFull) {
  Group group(1, {.slots = 3, .block_size = 1, .blocks_per_chunk = 1}, {}, 1, {.first = 1});
  std::vector<std::uint32_t> in(3, 1), out(3);
  group[0].submit({{{ElementType::kInt32, 3, in.data(), out.data()}}});
  EXPECT_EQ(slots_sent(group[0], 0), std::vector<std::uint16_t>{0});
}

TEST(Worker, DeadlineIsNeverLate) {
  Group group(2, {.slots = 2, .block_size = 1, .blocks_per_chunk = 1},
              {.initial = 100 * kMs, .minimum = kMs, .maximum = 200 * kMs});
  std::vector<std::uint32_t> in(2, 1), out(2);
  for (std::size_t w = 0; w < 2; ++w) group[w].submit({{{ElementType::kInt32, 2, in.data(), out.data()}}});
  const auto passes = group.exchange();
  ASSERT_EQ(passes.size(), 2u);
  Group::give(group[0], passes[0], kMs / 100);
  group[0].on_pending(1, 0, kMs / 50);
  ASSERT_TRUE(group[0].next_deadline());
  // The deadline may be early if something has come since it was set.
  group[0].on_tick(*group[0].next_deadline());
  const Nanoseconds due = *group[0].next_deadline();
  group[0].on_tick(due);
  EXPECT_LT(due, 10 * kMs);
  EXPECT_TRUE(group[0].next_pass(due));
}

TEST(Worker, PacketPathAllocatesNothing) {
  Group group(1, {.slots = 4, .block_size = 8, .blocks_per_chunk = 2});
  Floats floats(1, 1000, 9);
  floats.in[0][77] = NAN;
  floats.submit(group);
  std::vector<std::uint32_t> words(16);
  std::vector<std::uint8_t> exponents(2);
  const std::uint64_t before = testing::allocations();
  Worker& worker = group[0];
  while (const auto pass = worker.next_pass(0)) {
    worker.fill_exponents(*pass, exponents.data(), false);
    worker.fill_words(*pass, words.data(), numerics::Store::kWrite);
    worker.on_pending(pass->slot, pass->epoch, 0);
    worker.on_tick(0);
    worker.on_result({pass->slot, pass->epoch, pass->fingerprint, pass->words, pass->exponents, words.data(),
                      exponents.data(), numerics::Order::kHost},
                     0);
  }
  EXPECT_EQ(testing::allocations(), before);
  EXPECT_EQ(worker.pop_completed(), 1u);
}

}  // namespace
}  // namespace jaxina
