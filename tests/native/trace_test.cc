// Tests the recorder of traces, the events that the worker and the transports record, and the text that is made of
// them.
#include <gtest/gtest.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "rdma_engine/engine/trace_events.h"
#include "tests/native/udp_fixture.h"

namespace jaxina {
namespace {

using Kind = TraceEvent::Kind;
using testing::FloatSum;

constexpr std::size_t kRoom = 1 << 16;

TEST(Trace, TheOldestEventsAreDroppedAndCounted) {
  Recorder recorder(4);
  for (std::uint32_t epoch = 0; epoch < 3; ++epoch) recorder.add({.kind = Kind::kSent, .epoch = epoch});
  EXPECT_EQ(recorder.size(), 3u);
  EXPECT_EQ(recorder.overwritten(), 0u);
  EXPECT_EQ(recorder[0].epoch, 0u);
  for (std::uint32_t epoch = 3; epoch < 11; ++epoch) recorder.add({.kind = Kind::kSent, .epoch = epoch});
  EXPECT_EQ(recorder.size(), 4u);
  EXPECT_EQ(recorder.overwritten(), 7u);
  for (std::uint32_t i = 0; i < 4; ++i) EXPECT_EQ(recorder[i].epoch, 7 + i);
}

// Expects that in each slot passes follow one another, that each was sent before its result came, and that none is left
// without a result. Returns the number of transmissions.
std::uint64_t expect_passes_in_order(const Recorder& recorder, bool over_a_network) {
  struct Slot {
    std::uint32_t epoch = 0;
    Nanoseconds sent = 0;
    bool waits = false;
  };
  std::map<std::uint16_t, Slot> slots;
  std::uint64_t transmissions = 0, results = 0, first = 0;
  Nanoseconds wait_ended = 0;
  for (std::size_t i = 0; i < recorder.size(); ++i) {
    const TraceEvent& event = recorder[i];
    EXPECT_GT(event.time, 0);
    Slot& slot = slots[event.slot];
    switch (event.kind) {
      case Kind::kSent:
        EXPECT_FALSE(slot.waits);
        EXPECT_EQ(event.epoch, slot.epoch);
        slot.waits = true;
        slot.sent = event.time;
        ++first, ++transmissions;
        break;
      case Kind::kSentAgain:
        EXPECT_TRUE(over_a_network && slot.waits);
        EXPECT_EQ(event.epoch, slot.epoch);
        EXPECT_GE(event.time, slot.sent);
        ++transmissions;
        break;
      case Kind::kResult:
        EXPECT_TRUE(slot.waits);
        EXPECT_EQ(event.epoch, slot.epoch);
        EXPECT_GE(event.time, slot.sent);
        slot.waits = false;
        ++slot.epoch, ++results;
        break;
      case Kind::kWait:
        EXPECT_GE(event.time, wait_ended) << "waits of one thread overlap";
        EXPECT_GE(event.end, event.time);
        wait_ended = event.end;
        break;
      default: break;
    }
  }
  EXPECT_EQ(first, results);
  EXPECT_GT(results, 0u);
  return transmissions;
}

std::uint64_t count(const Recorder& recorder, Kind kind) {
  std::uint64_t found = 0;
  for (std::size_t i = 0; i < recorder.size(); ++i) found += recorder[i].kind == kind;
  return found;
}

TEST(Trace, EveryTransmissionAndEveryLossOverUdpIsRecorded) {
  SoftwareSwitch software_switch({});
  const JobSpec job = testing::job_of(2);
  software_switch.add_job(job);
  std::vector<testing::UdpMember> configs = testing::configs_for(job, software_switch.ports());
  for (testing::UdpMember& config : configs) config.udp.loss.share = 0.05;
  FloatSum operands(2, 200'000, 5);
  std::vector<Recorder> recorders(2, Recorder(kRoom));
  std::vector<Counters> counters(2);
  testing::with_workers(configs, [&](std::uint32_t w, Endpoint& endpoint) {
    endpoint.record(&recorders[w]);
    operands.submit(w, endpoint);
    const Status status = testing::run_to_end(endpoint);
    EXPECT_TRUE(status.ok()) << status.text();
    counters[w] = endpoint.statistics();
  });
  operands.expect_exact();
  for (std::uint32_t w = 0; w < 2; ++w) {
    EXPECT_EQ(expect_passes_in_order(recorders[w], true), counters[w][Counter::kPacketsSent]);
    EXPECT_GT(counters[w][Counter::kRetransmissions], 0u);
    EXPECT_EQ(count(recorders[w], Kind::kSentAgain), counters[w][Counter::kRetransmissions]);
    EXPECT_EQ(count(recorders[w], Kind::kDropped), counters[w][Counter::kPacketsDropped]);
    EXPECT_GT(count(recorders[w], Kind::kWait), 0u);
  }
}

// Joins a job of two workers. Waits until both have joined.
std::unique_ptr<Endpoint> join_in_shared_memory(std::uint32_t job, std::uint32_t worker) {
  Membership member = testing::member_of(testing::job_of(2, job), worker);
  member.secret += static_cast<std::uint64_t>(getpid()) << 20;
  return make_endpoint(member, EmbeddedConfig{});
}

TEST(Trace, EveryPassThroughSharedMemoryIsRecorded) {
  FloatSum operands(2, 200'000, 6);
  std::vector<Recorder> recorders(2, Recorder(kRoom));
  std::vector<Counters> counters(2);
  std::vector<std::thread> threads;
  for (std::uint32_t w = 0; w < 2; ++w) {
    threads.emplace_back([&, w] {
      const std::unique_ptr<Endpoint> endpoint = join_in_shared_memory(77, w);
      endpoint->record(&recorders[w]);
      operands.submit(w, *endpoint);
      const Status status = testing::run_to_end(*endpoint);
      EXPECT_TRUE(status.ok()) << status.text();
      counters[w] = endpoint->statistics();
    });
  }
  for (std::thread& t : threads) t.join();
  operands.expect_exact();
  for (std::uint32_t w = 0; w < 2; ++w) {
    EXPECT_EQ(expect_passes_in_order(recorders[w], false), counters[w][Counter::kPacketsSent]);
  }
}

// One thread drives two workers by turns, so each finds a whole pool of passes that the other has begun. The worker
// that completes a pass takes the result with its next pass, however many older results there are. It cannot if an
// older pass is incomplete, because results are taken in their order.
TEST(Trace, WhoCompletesAPassThroughSharedMemoryTakesItsResultAtOnce) {
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "the order is another one if workers share a core";
  FloatSum operands(2, 200'000, 7);
  std::vector<Recorder> recorders(2, Recorder(kRoom));
  std::vector<std::unique_ptr<Endpoint>> endpoints(2);
  std::vector<std::thread> joining;
  for (std::uint32_t w = 0; w < 2; ++w) {
    joining.emplace_back([&, w] { endpoints[w] = join_in_shared_memory(78, w); });
  }
  for (std::thread& t : joining) t.join();
  for (std::uint32_t w = 0; w < 2; ++w) endpoints[w]->record(&recorders[w]), operands.submit(w, *endpoints[w]);
  for (int turn = 0; turn < 10'000 && !(endpoints[0]->worker().idle() && endpoints[1]->worker().idle()); ++turn) {
    ASSERT_TRUE(endpoints[turn % 2]->progress(0).ok());
    endpoints[turn % 2]->worker().pop_completed();
  }
  operands.expect_exact();

  using PassOfSlot = std::pair<std::uint16_t, std::uint32_t>;
  std::vector<std::map<PassOfSlot, Nanoseconds>> sent(2);
  for (std::uint32_t w = 0; w < 2; ++w) {
    for (std::size_t i = 0; i < recorders[w].size(); ++i) {
      const TraceEvent& event = recorders[w][i];
      if (event.kind == Kind::kSent) sent[w][{event.slot, event.epoch}] = event.time;
    }
  }
  for (std::uint32_t w = 0; w < 2; ++w) {
    std::size_t completed = 0, passes = 0;
    std::map<PassOfSlot, std::size_t> in_flight;  // how many passes this worker had sent when it sent this one
    std::set<PassOfSlot> behind_incomplete;
    for (std::size_t i = 0; i < recorders[w].size(); ++i) {
      const TraceEvent& event = recorders[w][i];
      const PassOfSlot pass{event.slot, event.epoch};
      if (event.kind == Kind::kSent) {
        for (const auto& [older, place] : in_flight) {
          if (sent[1 - w][older] > event.time) behind_incomplete.insert(pass);
        }
        in_flight[pass] = ++passes;
      } else if (event.kind == Kind::kResult) {
        const std::size_t sent_since = passes - in_flight[pass];
        in_flight.erase(pass);
        if (sent[w][pass] < sent[1 - w][pass] || behind_incomplete.contains(pass)) continue;
        ++completed;
        EXPECT_LE(sent_since, 1u) << "worker " << w << ", slot " << event.slot << ", epoch " << event.epoch;
      }
    }
    EXPECT_GT(completed, passes / 4);
  }
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Trace, AGroupsPassesBecomeText) {
  auto recorder = std::make_unique<Recorder>(6);
  const auto data = static_cast<std::uint8_t>(Phase::kData);
  recorder->add({.kind = Kind::kSent, .detail = data, .slot = 3, .epoch = 6, .time = 500});  // dropped for lack of room
  recorder->add({.kind = Kind::kResult, .detail = data, .slot = 3, .epoch = 6, .time = 900});
  recorder->add(
      {.kind = Kind::kSent, .detail = data, .slot = 3, .epoch = 7, .chunk = 11, .collective = 2, .time = 1'000});
  recorder->add({.kind = Kind::kSentAgain,
                 .detail = data,
                 .slot = 3,
                 .epoch = 7,
                 .chunk = 11,
                 .collective = 2,
                 .time = 2'500'000});
  recorder->add(
      {.kind = Kind::kResult, .detail = data, .slot = 3, .epoch = 7, .chunk = 11, .collective = 2, .time = 3'001'234});
  recorder->add({.kind = Kind::kCollective, .collective = 2, .elements = 100, .time = 10, .end = 4'000'000});
  recorder->add({.kind = Kind::kSent, .detail = data, .slot = 4, .epoch = 1, .time = 3'500'000});
  std::map<Group, std::unique_ptr<Recorder>> trace;
  trace[{0, 1}] = std::move(recorder);
  const TraceText text = trace_text(5, "worker 5", trace);
  EXPECT_EQ(text.overwritten, 1u);
  EXPECT_EQ(text.passes, 2u) << "a pass whose beginning was overwritten is no slice";
  EXPECT_TRUE(contains(
      text.events, R"({"ph":"X","pid":5,"tid":5,"name":"data","ts":1.000,"dur":3000.234,"args":{"chunk":11,"epoch":7,)"
                   R"("collective":2,"transmissions":2}})"))
      << text.events;
  EXPECT_TRUE(contains(text.events, R"({"ph":"i","pid":5,"tid":5,"name":"sent again","s":"t","ts":2500.000})"))
      << text.events;
  EXPECT_TRUE(contains(text.events, R"("ts":3500.000,"dur":500.000,"args":{"chunk":0,"epoch":1,"collective":0,)"
                                    R"("transmissions":1,"unfinished":true}})"))
      << text.events;
  EXPECT_TRUE(contains(text.events, R"("name":"process_name","args":{"name":"worker 5"}})")) << text.events;
}

}  // namespace
}  // namespace jaxina
