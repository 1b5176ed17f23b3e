// Tests a ring in racks: what a leaf and the spine do with packets, and how a ring is cut.
#include "rdma_engine/netreduce/ring_racks.h"

#include "tests/native/ring_fixture.h"

namespace jaxina::netreduce {
namespace {

// The fixture's ring of three workers. Worker 0 and 1 are in rack 5, worker 2 is in rack 9. So the connections of
// worker 1 and of worker 2 cross racks.
class RingInRacks : public Ring {
 protected:
  static constexpr std::uint32_t kFirst = 5, kSecond = 9;

  RingInRacks() : racked_(cut_by_rack(spec(), std::vector<std::uint32_t>{kFirst, kFirst, kSecond})) {
    leaf_job_ = leaf_.add(racked_.leaves.at(kFirst));
    other_leaf_.add(racked_.leaves.at(kSecond));
    spine_job_ = spine_.add(racked_.spine);
  }

  std::vector<Bytes> at(TransparentSwitch& node, const Bytes& frame) {
    out_.clear();
    node.on_frame(frame, 1, *this);
    return out_;
  }
  // Each connection's first packet, at all switches.
  void begin() {
    const Message first{.slot = kFirstSlot};
    at(leaf_, frame(0, 0, first, 0));
    at(spine_, only(leaf_, frame(1, 0, first, 0)));
    for (const Bytes& down : at(spine_, only(other_leaf_, frame(2, 0, first, 0)))) {
      at(qpn_of(down) == 102 ? leaf_ : other_leaf_, down);
    }
  }
  // What leaves when one frame comes.
  Bytes only(TransparentSwitch& node, const Bytes& frame) {
    const std::vector<Bytes> out = at(node, frame);
    EXPECT_EQ(out.size(), 1u);
    return out.empty() ? Bytes{} : out[0];
  }
  // The total of one packet with these words of each worker, on its way down to the first rack.
  Bytes total_for_first_rack(std::uint64_t number, const Message& message) {
    at(leaf_, frame(0, number, message, 0));
    at(spine_, only(leaf_, frame(1, number, message, 0)));
    const std::vector<Bytes> down = at(spine_, only(other_leaf_, frame(2, number, message, 0)));
    for (const Bytes& one : down) {
      if (qpn_of(one) == 102) return one;
    }
    ADD_FAILURE() << "no total comes down";
    return {};
  }
  static std::uint32_t qpn_of(const Bytes& frame) { return read(frame).packet.headers.qpn; }
  static roce::RingKind kind_of(const Bytes& frame) { return roce::ring_kind_of(read(frame).packet.headers.immediate); }
  static std::uint32_t sent_as(roce::RingKind kind) { return 5 | roce::bits_of(kind); }

  RackedRing racked_;
  TransparentSwitch leaf_, other_leaf_, spine_;
  RingJob *leaf_job_, *spine_job_;
};

TEST_F(RingInRacks, OneConnectionLeadsOutOfEachRackAndOneIntoIt) {
  const auto qpns = [](const RingSpec& spec) {
    std::vector<std::uint32_t> all;
    for (const RingMember& member : spec.members) all.push_back(member.qpn);
    return all;
  };
  EXPECT_EQ(qpns(racked_.leaves.at(kFirst)), (std::vector<std::uint32_t>{100, 101}));
  EXPECT_EQ(racked_.leaves.at(kFirst).from_above->qpn, 102u);
  EXPECT_EQ(qpns(racked_.leaves.at(kSecond)), (std::vector<std::uint32_t>{102}));
  EXPECT_EQ(racked_.leaves.at(kSecond).from_above->qpn, 101u);
  EXPECT_EQ(qpns(racked_.spine), (std::vector<std::uint32_t>{101, 102}));
  // The ring's first worker may be in the middle of its rack.
  const RackedRing turned = cut_by_rack(spec(), std::vector<std::uint32_t>{7, 8, 7});
  EXPECT_EQ(qpns(turned.leaves.at(7)), (std::vector<std::uint32_t>{102, 100}));
  EXPECT_EQ(turned.leaves.at(7).from_above->qpn, 101u);
}

TEST_F(RingInRacks, ARingThatComesBackToARackIsRefused) {
  RingSpec four = spec();
  four.shape =
      JobShape({.devices = 4, .workers = 4, .slots = 3, .block_size = 2, .blocks_per_chunk = 3, .widest_element = 1});
  four.members.push_back(four.members.back());
  try {
    cut_by_rack(four, std::vector<std::uint32_t>{1, 2, 1, 2});
    FAIL() << "it was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.status().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(error.status().message.find("consecutive ranks"), std::string::npos) << error.what();
  }
}

TEST_F(RingInRacks, TheRacksSumGoesUpAndTheTotalComesDownToAll) {
  EXPECT_TRUE(at(leaf_, frame(0, 0, {.words = words({1, 1, 1, 1})}, 0)).empty());
  const Bytes up = only(leaf_, frame(1, 0, {.words = words({2, 2, 2, 2})}, 0));
  EXPECT_EQ(payload_of(up), words({3, 3, 3, 3}));
  EXPECT_EQ(qpn_of(up), 101u);
  EXPECT_EQ(kind_of(up), roce::RingKind::kAsSent) << "that is not all workers' sum";
  EXPECT_TRUE(at(spine_, up).empty());
  const Bytes other_up = only(other_leaf_, frame(2, 0, {.words = words({5, 5, 5, 5})}, 0));
  const std::vector<Bytes> down = at(spine_, other_up);
  ASSERT_EQ(down.size(), 2u);
  for (const Bytes& one : down) EXPECT_EQ(payload_of(one), words({8, 8, 8, 8}));
  // Both of the first rack's packets leave its leaf with the total: the one to worker 0, and that between 0 and 1.
  const std::vector<Bytes> to_rack = at(leaf_, down[qpn_of(down[0]) == 102 ? 0 : 1]);
  ASSERT_EQ(to_rack.size(), 2u);
  for (const Bytes& one : to_rack) {
    EXPECT_EQ(payload_of(one), words({8, 8, 8, 8}));
    EXPECT_EQ(kind_of(one), roce::RingKind::kSummed);
  }
  EXPECT_EQ(qpn_of(to_rack[0]) + qpn_of(to_rack[1]), 100u + 102u);
  EXPECT_EQ(leaf_job_->counters()[Counter::kUpdates], 2u);
  EXPECT_EQ(spine_job_->counters()[Counter::kResults], 1u);
}

// Each worker would wait for another one otherwise: worker 1 sends slot 1 first, worker 2 slot 0.
TEST_F(RingInRacks, BetweenSwitchesPacketsGoAsSoonAsTheyCan) {
  begin();
  at(leaf_, frame(0, 1, {.slot = 0}, 0));
  EXPECT_TRUE(at(leaf_, frame(1, 1, {.slot = 1}, 0)).empty());
  const Bytes up = only(leaf_, frame(1, 2, {.slot = 0}, 0));  // although slot 1 is not complete
  EXPECT_EQ(psn_of(up), roce::psn_after(kFirstPsn, 2));
  at(spine_, up);
  const std::vector<Bytes> down = at(spine_, only(other_leaf_, frame(2, 1, {.slot = 0}, 0)));
  ASSERT_EQ(down.size(), 2u);
  // Worker 2's leaf has the total, and keeps it until worker 1's packet before it can leave.
  for (const Bytes& one : down) {
    if (qpn_of(one) != 101) continue;
    EXPECT_TRUE(at(other_leaf_, one).empty());
  }
}

TEST_F(RingInRacks, WhatIsLostBetweenSwitchesComesAgainWithACopy) {
  begin();
  at(leaf_, frame(0, 1, {.slot = 0}, 0));
  at(leaf_, frame(1, 1, {.slot = 1}, 0));
  const Bytes up = only(leaf_, frame(1, 2, {.slot = 0}, 0));
  EXPECT_EQ(only(leaf_, frame(1, 2, {.slot = 0}, 0)), up) << "it still waits behind another one";
  at(spine_, up);
  EXPECT_TRUE(at(spine_, up).empty()) << "it counts once";
}

// A message of three packets: the next switch misses one of them. It asks the receiver to name what it misses.
TEST_F(RingInRacks, AGapInAMessageIsTakenForALoss) {
  begin();
  const Message message{.words = words({1, 2, 3, 4, 5, 6, 7, 8}), .exponents = Bytes(4)};
  std::vector<Bytes> up;
  for (const std::size_t index : {0, 1, 2}) up.push_back(only(other_leaf_, frame(2, 1, message, index)));
  const auto asks_for_what_is_before = [&](const std::vector<Bytes>& out, std::uint32_t number) {
    ASSERT_EQ(out.size(), 1u);
    EXPECT_EQ(read(out[0]).packet.headers.opcode, roce::Opcode::kRcWriteOnly);
    EXPECT_TRUE(payload_of(out[0]).empty());
    EXPECT_EQ(psn_of(out[0]), roce::psn_after(kFirstPsn, number + (1u << 22)));
    EXPECT_EQ(only(leaf_, out[0]), out[0]) << "it passes the next switch";
  };
  asks_for_what_is_before(at(spine_, up[1]), 2);  // it does not know the message yet
  EXPECT_TRUE(at(spine_, up[0]).empty());
  asks_for_what_is_before(at(spine_, up[2]), 3);  // up[1] was not taken
  EXPECT_TRUE(at(spine_, up[2]).empty()) << "it asks once";
  EXPECT_TRUE(at(spine_, up[1]).empty());
  EXPECT_FALSE(spine_job_->has_ended());
}

// Otherwise the next switch would take a repaired loss for one more.
TEST_F(RingInRacks, BetweenSwitchesTheOrderInAMessageIsKept) {
  const Message message{.words = words({1, 2, 3, 4, 5, 6, 7, 8}), .exponents = Bytes(4)};
  std::vector<Bytes> up;
  for (const std::size_t index : {0, 1, 2}) {
    at(leaf_, frame(0, 0, message, index));
    up.push_back(only(leaf_, frame(1, 0, message, index)));
  }
  for (const std::size_t index : {0, 2}) at(spine_, up[index]);  // the second one is lost
  const auto numbers_for_other_leaf = [&](const std::vector<Bytes>& out) {
    std::vector<std::uint32_t> numbers;
    for (const Bytes& one : out) {
      if (qpn_of(one) == 101) numbers.push_back(roce::psn_distance(kFirstPsn, psn_of(one)));
    }
    return numbers;
  };
  using Numbers = std::vector<std::uint32_t>;
  const std::vector<Bytes> first = at(spine_, only(other_leaf_, frame(2, 0, message, 0)));
  EXPECT_EQ(numbers_for_other_leaf(first), Numbers{0});
  for (const std::size_t index : {1, 2}) {
    EXPECT_TRUE(at(spine_, only(other_leaf_, frame(2, 0, message, index))).empty());
  }
  EXPECT_EQ(numbers_for_other_leaf(at(spine_, up[1])), (Numbers{1, 2}));
}

TEST_F(RingInRacks, ALeafThatGetsWhatNobodyHasSummedEndsTheJob) {
  at(leaf_, frame(0, 0, {.words = words({1, 1, 1, 1})}, 0));
  at(leaf_, frame(1, 0, {.words = words({2, 2, 2, 2})}, 0));
  // The spine has lost the job and passes on worker 2's packet.
  at(leaf_, only(other_leaf_, frame(2, 0, {.words = words({5, 5, 5, 5})}, 0)));
  EXPECT_TRUE(leaf_job_->has_ended());
  const Bytes again = only(leaf_, frame(0, 0, {.words = words({1, 1, 1, 1})}, 0));
  EXPECT_EQ(kind_of(again), roce::RingKind::kAsSent) << "no worker is to blame";
}

TEST_F(RingInRacks, ALeafWhoseWorkersContradictEachOtherTellsTheSpine) {
  at(leaf_, frame(0, 0, {.words = words({1, 2, 3, 4})}, 0));
  at(leaf_, frame(1, 0, {.words = words({1, 2, 3})}, 0));
  const Bytes up = only(leaf_, frame(1, 0, {.words = words({1, 2, 3})}, 0));
  EXPECT_EQ(kind_of(up), roce::RingKind::kContradicted);
  at(spine_, up);
  EXPECT_TRUE(spine_job_->has_ended());
}

TEST_F(RingInRacks, AMemberThatRunsAheadOfTheOthersEndsTheJob) {
  // At the spine messages may overtake each other. Each has two packets. Worker 1 begins the third pass before worker 2
  // has sent all of the first one.
  const auto pass = [&](std::uint32_t epoch) { return Message{.epoch = epoch, .words = Bytes(32)}; };
  for (std::uint32_t epoch = 0; epoch < 2; ++epoch) {
    for (const std::uint32_t worker : {1u, 2u}) at(spine_, frame(worker, 2 * epoch, pass(epoch), 0));
  }
  at(spine_, frame(1, 4, pass(2), 0));
  EXPECT_FALSE(spine_job_->has_ended());
  at(spine_, frame(2, 0, pass(0), 1));
  EXPECT_TRUE(spine_job_->has_ended());
  EXPECT_EQ(kind_of(only(spine_, frame(1, 4, pass(2), 1))), roce::RingKind::kContradicted);
}

TEST_F(RingInRacks, EmptyWritesOfOtherSwitchesPassUnlessTheirPacketIsAwaited) {
  const RingMember member = spec().members[2];
  const auto empty = [&](std::uint32_t psn) {
    return frame_of(member,
                    {.opcode = roce::Opcode::kRcWriteOnly,
                     .qpn = member.qpn,
                     .psn = psn,
                     .address = member.memory,
                     .rkey = member.rkey},
                    {}, {});
  };
  begin();
  const std::uint32_t next = roce::psn_after(kFirstPsn, 1);
  const Bytes far = empty(roce::psn_after(next, 1u << 22)), near = empty(next);
  for (TransparentSwitch* node : {&spine_, &leaf_}) {
    EXPECT_EQ(only(*node, far), far);
    EXPECT_TRUE(at(*node, near).empty());
  }
  at(leaf_, total_for_first_rack(1, {}));
  EXPECT_EQ(only(spine_, near), near);
  EXPECT_EQ(only(leaf_, near), near);
}

}  // namespace
}  // namespace jaxina::netreduce
