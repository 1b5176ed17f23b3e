// Tests PendingCollectives, which matches the start of a collective with its finish: in order, by run, device and call.
// It must refuse a sum that lies elsewhere. If the program has failed, it must wait until no sum is being written any
// more.
#include "xla_ffi/gpu/pending_collectives.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <thread>

namespace jaxina {
namespace {

using Key = PendingCollectives::Key;
constexpr Key kCall{.run = 5, .device = 0, .identity = -77};
const int memory[4] = {};

TEST(PendingCollectives, EachKeyFinishesItsOwnCollectivesInOrder) {
  PendingCollectives pending;
  const Key other_run{6, 0, -77}, other_device{5, 1, -77}, other_call{5, 0, 12};
  const auto first = pending.add(kCall, {&memory[0]}), second = pending.add(kCall, {&memory[1]});
  for (const Key& key : {other_run, other_device, other_call}) pending.add(key, {&memory[2]})->set_value({});
  second->set_value({});
  first->set_value({});
  EXPECT_TRUE(pending.finish(kCall, {&memory[0]}).ok());
  EXPECT_TRUE(pending.finish(kCall, {&memory[1]}).ok());
  for (const Key& key : {other_run, other_device, other_call}) EXPECT_TRUE(pending.finish(key, {&memory[2]}).ok());
  EXPECT_EQ(pending.finish(kCall, {&memory[0]}).code, ErrorCode::kInvalidArgument);
}

TEST(PendingCollectives, WaitsForTheEndAndReturnsItsReason) {
  PendingCollectives pending;
  const auto ending = pending.add(kCall, {&memory[0]});
  std::thread engine([ending] { ending->set_value({ErrorCode::kWorkerLost, "worker 1 died"}); });
  const Status status = pending.finish(kCall, {&memory[0]});
  engine.join();
  EXPECT_EQ(status.code, ErrorCode::kWorkerLost);
  EXPECT_EQ(status.message, "worker 1 died");
}

TEST(PendingCollectives, AResultThatWasMovedIsAnError) {
  PendingCollectives pending;
  pending.add(kCall, {&memory[0], &memory[1]})->set_value({});
  EXPECT_EQ(pending.finish(kCall, {&memory[0], &memory[2]}).code, ErrorCode::kInvalidArgument);
}

TEST(PendingCollectives, AFailureWaitsForAllCollectivesOfTheRun) {
  PendingCollectives pending;
  const Key other_call{5, 0, 12}, other_device{5, 1, 12};
  pending.add(kCall, {&memory[0]})->set_value({ErrorCode::kTimeout, "late"});
  const auto under_way = pending.add(other_call, {&memory[1]});
  const auto elsewhere = pending.add(other_device, {&memory[2]});
  std::atomic<bool> ended = false;
  std::thread engine([&] {
    ended = true;
    under_way->set_value({});
  });
  EXPECT_EQ(pending.finish(kCall, {&memory[0]}).code, ErrorCode::kTimeout);
  EXPECT_TRUE(ended);
  engine.join();
  EXPECT_EQ(pending.finish(other_call, {&memory[1]}).code, ErrorCode::kInvalidArgument);  // removed with the run
  elsewhere->set_value({});
  EXPECT_TRUE(pending.finish(other_device, {&memory[2]}).ok());
}

TEST(PendingCollectives, TheEndOfARunWaitsForItsUnfinishedCollectives) {
  PendingCollectives pending;
  const Key other_call{5, 0, 12}, other_device{5, 1, 12}, other_run{6, 0, 12};
  auto run = std::make_unique<PendingCollectives::Run>(pending, kCall.run, kCall.device);
  pending.add(kCall, {&memory[0]})->set_value({});
  EXPECT_TRUE(pending.finish(kCall, {&memory[0]}).ok());
  const auto in_loop = pending.add(kCall, {&memory[0]}), under_way = pending.add(other_call, {&memory[1]});
  const auto elsewhere = pending.add(other_device, {&memory[2]}), later = pending.add(other_run, {&memory[3]});
  std::future<void> over = std::async(std::launch::async, [&] { run.reset(); });  // as if the program had failed
  in_loop->set_value({ErrorCode::kTimeout, "late"});
  EXPECT_EQ(over.wait_for(std::chrono::milliseconds(30)), std::future_status::timeout);
  under_way->set_value({});
  over.get();
  EXPECT_EQ(pending.finish(kCall, {&memory[0]}).code, ErrorCode::kInvalidArgument);  // removed with the run
  elsewhere->set_value({});
  later->set_value({});
  EXPECT_TRUE(pending.finish(other_device, {&memory[2]}).ok());
  EXPECT_TRUE(pending.finish(other_run, {&memory[3]}).ok());
  run = std::make_unique<PendingCollectives::Run>(pending, kCall.run, kCall.device);
  run.reset();  // nothing was started, so it must not wait
}

}  // namespace
}  // namespace jaxina
