// Tests what a transparent switch does with all that is no ring's, and with rings that break the rules.
#include <gtest/gtest.h>

#include <random>

#include "tests/native/ring_fixture.h"

namespace jaxina::netreduce {
namespace {

class TransparentSwitchTest : public Ring {
 protected:
  void expect_passed(const Bytes& frame) {
    const auto out = on(frame, 77);
    ASSERT_EQ(out.size(), 1u);
    EXPECT_EQ(out[0], frame);
    EXPECT_EQ(egress_.back(), 77);
  }
  void expect_passed_as_contradicted(Options options) {
    const auto out = on(frame(0, 0, {.words = words({9, 8, 7, 6})}, 0, options), 77);
    options.immediate |= roce::bits_of(roce::RingKind::kContradicted);
    ASSERT_EQ(out.size(), 1u);
    EXPECT_EQ(out[0], frame(0, 0, {.words = words({9, 8, 7, 6})}, 0, options));
  }
};

// A job that has ended passes on what a worker sends, and only the immediate says that it has.
TEST_F(TransparentSwitchTest, AJobThatHasEndedSaysSo) {
  on(frame(0, 0, {.words = words({1, 2, 3, 4})}, 0));
  on(frame(1, 0, {.words = words({1, 2, 3})}, 0));
  ASSERT_TRUE(job_->has_ended());
  expect_passed_as_contradicted({.traffic_class = 3, .congestion = 0x80, .id = 99});
  expect_passed(frame(2, 0, {.words = Bytes(32)}, 0));  // the first packet of a message has no immediate
  Bytes damaged = frame(2, 0, {}, 0);
  damaged.back() ^= 1;
  EXPECT_TRUE(on(damaged).empty()) << "a new ICRC would hide the damage";
}

TEST_F(TransparentSwitchTest, AllElsePassesByteForByte) {
  std::mt19937 random(1);
  const RingMember member = spec().members[0];
  for (int i = 0; i < 2000; ++i) {
    Bytes bytes(random() % 200);
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
    expect_passed(bytes);
  }
  roce::Headers headers{.opcode = roce::Opcode::kRcAcknowledge, .qpn = member.qpn, .syndrome = 0x1f};
  expect_passed(frame_of(member, headers, {}, {}));  // an acknowledgement, even on the ring's own connection
  headers = {.opcode = roce::Opcode::kRcWriteOnlyImm, .qpn = member.qpn + 50, .length = 8};
  expect_passed(frame_of(member, headers, Bytes(8), {}));  // another queue pair of the same hosts
  Bytes damaged = frame_of(member, headers, Bytes(8), {});
  damaged.back() ^= 1;
  expect_passed(damaged);
  headers = {.opcode = roce::Opcode::kRcWriteOnlyImm, .qpn = member.qpn, .length = 8};
  RingMember other = member;
  other.source[3] = 200;
  expect_passed(frame_of(other, headers, Bytes(8), {}));  // another host that names the ring's queue pair
  EXPECT_FALSE(job_->has_ended());
}

// Anybody may say that a connection of other hosts is in their ring. They know neither its numbers nor its keys.
TEST_F(TransparentSwitchTest, AConnectionIsTheRingsOnceItsFirstPacketHasCome) {
  const RingMember member = spec().members[0];
  const auto expect_all_pass = [&] {
    const auto expect_foreign_passes = [&](auto change) {
      roce::Headers h{.opcode = roce::Opcode::kRcWriteOnlyImm,
                      .qpn = member.qpn,
                      .psn = kFirstPsn,
                      .address = member.memory + spec().layout().exponents_in_place() - 16,
                      .rkey = member.rkey,
                      .length = 16,
                      .immediate = 5};
      std::size_t payload = 16;
      change(h, payload);
      expect_passed(frame_of(member, h, Bytes(payload), {}));
    };
    expect_foreign_passes([](auto& h, auto&) { ++h.psn; });
    expect_foreign_passes([](auto& h, auto&) { --h.psn; });
    expect_foreign_passes([](auto& h, auto&) { ++h.rkey; });
    expect_foreign_passes([](auto& h, auto&) { h.address = 0xffff; });
    expect_foreign_passes([](auto& h, auto&) { h.address += 0x100000; });
    expect_foreign_passes([](auto& h, auto& payload) { h.length = 0, payload = 0; });
    expect_foreign_passes([](auto& h, auto& payload) { h.length = payload = 4 * kMtu; });
    expect_foreign_passes([](auto&, auto& payload) { payload = 12; });
    for (const auto opcode : {roce::Opcode::kRcSendOnlyImm, roce::Opcode::kRcSendFirst, roce::Opcode::kRcWriteMiddle,
                              roce::Opcode::kRcWriteLastImm}) {
      expect_foreign_passes([&](auto& h, auto&) { h.opcode = opcode; });
      expect_foreign_passes([&](auto& h, auto& payload) { h.opcode = opcode, payload = 4 * kMtu; });
    }
    Bytes damaged = frame(0, 0, {}, 0);
    damaged.back() ^= 1;
    expect_passed(damaged);
  };
  expect_all_pass();
  on(frame(1, 0, {.words = words({1, 2, 3, 4})}, 0));
  on(frame(2, 0, {.words = words({1, 2, 3})}, 0));
  ASSERT_TRUE(job_->has_ended());
  expect_all_pass();
  expect_passed_as_contradicted({});  // that is the first packet
}

TEST_F(TransparentSwitchTest, WhoNamesAConnectionBeforeItsRingDoesNotGetIt) {
  RingSpec real = spec();
  real.job = 8;
  for (RingMember& member : real.members) member.first_psn = 500, member.rkey = 0x1234;
  job_ = switch_.add(real);
  ASSERT_NE(job_, nullptr);
  const auto first_of = [&](std::uint32_t worker) {
    const Bytes payload = words({1, 2, 3, 4}), like = frame(worker, 0, {.words = payload}, 0);
    roce::Headers headers = read(like).packet.headers;
    headers.psn = 500, headers.rkey = 0x1234;
    return frame_of(real.members[worker], headers, payload, {});
  };
  for (std::uint32_t worker = 0; worker < 2; ++worker) EXPECT_TRUE(on(first_of(worker)).empty());
  const std::vector<Bytes> out = on(first_of(2));
  ASSERT_EQ(out.size(), 3u);
  for (const Bytes& one : out) EXPECT_EQ(payload_of(one), words({3, 6, 9, 12}));
  switch_.remove(7);  // what the other one gives up stays the ring's
  EXPECT_EQ(on(first_of(0)), std::vector<Bytes>{out[0]});
  real.job = 9;
  EXPECT_EQ(switch_.add(real), nullptr) << "its packets have come";
  switch_.remove(8);
  EXPECT_NE(switch_.add(real), nullptr);
}

TEST_F(TransparentSwitchTest, ADamagedPacketOfARingIsDropped) {
  begin();
  Bytes damaged = frame(0, 1, {}, 0);
  damaged[damaged.size() - 6] ^= 1;
  EXPECT_TRUE(on(damaged).empty());
  EXPECT_EQ(job_->counters()[Counter::kRdmaWrongIcrc], 1u);
  EXPECT_FALSE(job_->has_ended());
}

TEST_F(TransparentSwitchTest, AJobThatIsRemovedPassesAsItIs) {
  EXPECT_TRUE(on(frame(0, 0, {}, 0)).empty());
  switch_.remove(7);
  EXPECT_EQ(switch_.find(7), nullptr);
  expect_passed(frame(1, 0, {}, 0));
  switch_.remove(7);  // once more changes nothing
}

// Each of these ends the job: from then on nothing is summed.
TEST_F(TransparentSwitchTest, WorkersThatBreakTheRulesEndTheirJob) {
  const auto with = [this](auto change) {
    const RingMember member = spec().members[1];
    roce::Headers h{.opcode = roce::Opcode::kRcWriteOnlyImm,
                    .qpn = member.qpn,
                    .psn = roce::psn_after(kFirstPsn, 1),
                    .address = member.memory + spec().layout().exponents_in_place() - 16,
                    .rkey = member.rkey,
                    .length = 16};
    std::size_t payload = 16;
    change(h, payload);
    return frame_of(member, h, Bytes(payload), {});
  };
  const struct {
    Bytes frame;
    Counter reason;
  } wrong[] = {
      {with([](auto& h, auto&) { ++h.rkey; }), Counter::kRdmaNoAccess},
      {with([](auto& h, auto&) { h.address = 0xffff; }), Counter::kRdmaNoAccess},
      {with([](auto& h, auto&) { h.address += 0x100000; }), Counter::kRdmaNoAccess},
      {with([](auto& h, auto&) { h.address += 2; }), Counter::kRdmaNoAccess},
      {with([](auto& h, auto&) { h.address -= 16; }), Counter::kRdmaNoAccess},      // ends before the exponents
      {with([](auto& h, auto&) { h.address += 16 + 4; }), Counter::kRdmaNoAccess},  // begins behind them
      {with([this](auto& h, auto&) { h.address += spec().layout().stride(); }),
       Counter::kRdmaNoAccess},  // not its turn
      {with([](auto& h, auto&) { h.length = 0xfffffffc; }), Counter::kRdmaNoAccess},
      {with([](auto& h, auto& payload) { h.length = 0, payload = 0; }), Counter::kRdmaNoAccess},
      {with([](auto&, auto& payload) { payload = 12; }), Counter::kRdmaBadLength},
      {with([](auto& h, auto&) { h.opcode = roce::Opcode::kRcWriteOnly; }), Counter::kRdmaBadLength},
      {with([](auto& h, auto&) { h.opcode = roce::Opcode::kRcWriteMiddle; }), Counter::kRdmaMalformed},
      {with([](auto& h, auto&) { h.opcode = roce::Opcode::kRcSendOnlyImm; }), Counter::kRdmaMalformed},
  };
  std::uint32_t number = 100;
  for (const auto& [bytes, reason] : wrong) {
    switch_.remove(number);
    switch_.remove(7);
    RingSpec again = spec();
    again.job = ++number;
    job_ = switch_.add(again);
    ASSERT_NE(job_, nullptr);
    begin();
    EXPECT_TRUE(on(bytes).empty());
    EXPECT_TRUE(job_->has_ended()) << number;
    EXPECT_EQ(job_->counters()[reason], 1u) << number;
    expect_passed_as_contradicted({});
  }
}

TEST_F(TransparentSwitchTest, WorkersThatSendDifferentSizesEndTheirJob) {
  EXPECT_TRUE(on(frame(0, 0, {.words = words({1, 2, 3, 4})}, 0)).empty());
  EXPECT_TRUE(on(frame(1, 0, {.words = words({1, 2, 3})}, 0)).empty());
  EXPECT_TRUE(job_->has_ended());
  EXPECT_EQ(job_->counters()[Counter::kMismatch], 1u);
}

TEST_F(TransparentSwitchTest, AWorkerThatRunsAheadEndsItsJob) {
  on(frame(0, 0, {.epoch = 0}, 0));
  on(frame(0, 1, {.epoch = 1}, 0));
  EXPECT_TRUE(job_->has_ended());
}

TEST_F(TransparentSwitchTest, ASpecThatCannotWorkIsRefused) {
  const auto refused = [](auto change) {
    RingSpec wrong = spec();
    wrong.job = 8;
    for (RingMember& member : wrong.members) member.qpn += 10;
    change(wrong);
    TransparentSwitch fresh;
    EXPECT_THROW(fresh.add(wrong), Error);
  };
  refused([](RingSpec& s) { s.members.pop_back(); });
  refused([](RingSpec& s) { s.mtu = 0; });
  refused([](RingSpec& s) { s.mtu = 18; });
  refused([](RingSpec& s) {
    s.shape = s.shape.with_slots(3), s.mtu = 4;
    s.shape = JobShape(
        {.devices = 3, .workers = 3, .slots = 20, .block_size = 2, .blocks_per_chunk = 3, .widest_element = 1});
  });
  RingSpec twice = spec();
  EXPECT_EQ(switch_.add(twice), nullptr);  // the job's number
  twice.job = 9;
  EXPECT_EQ(switch_.add(twice), nullptr);  // its connections
  twice.members[1] = twice.members[0];
  switch_.remove(7);
  EXPECT_EQ(switch_.add(twice), nullptr);  // one connection of two workers
  EXPECT_NE(switch_.add(spec()), nullptr);
}

}  // namespace
}  // namespace jaxina::netreduce
