// Tests that all lanes of a switch take a job or none does, even if one answers too late, and that work that takes long
// is not done in a lane.
#include "rdma_engine/switch/lanes.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <future>
#include <set>
#include <thread>

namespace jaxina {
namespace {

using namespace std::chrono_literals;

JobShape small_shape() {
  return JobShape({.devices = 2, .workers = 2, .slots = 8, .block_size = 8, .blocks_per_chunk = 1});
}

// An engine without packets. It holds jobs, and a test can make it wait.
class FakeEngine final : public PacketEngine {
 public:
  struct Job {
    std::uint32_t id;
    std::set<std::thread::id>* freed_by;
    ~Job() {
      if (freed_by != nullptr) freed_by->insert(std::this_thread::get_id());
    }
  };

  std::size_t turn() override { return 0; }
  void flush() override {}
  void wait(Nanoseconds timeout) override {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::nanoseconds(timeout), [this] { return std::exchange(interrupted_, false); });
  }
  void interrupt() override {
    {
      const std::lock_guard lock(mutex_);
      interrupted_ = true;
    }
    changed_.notify_all();
  }

  bool add(std::unique_ptr<Job> job) {
    thread = std::this_thread::get_id();
    if (held_up.valid()) held_up.wait();
    return jobs.emplace(job->id, std::move(job)).second;
  }
  std::unique_ptr<Job> remove(std::uint32_t id) {
    auto node = jobs.extract(id);
    return node.empty() ? nullptr : std::move(node.mapped());
  }
  void abort(std::uint32_t, const Status&) {}
  const Aggregator* find(std::uint32_t id) const { return jobs.contains(id) ? &aggregator_ : nullptr; }
  const Counters* counters_of(std::uint32_t id) const { return jobs.contains(id) ? &aggregator_.counters() : nullptr; }
  void count(SwitchCounters& counters) const { ++counters.sockets[Counter::kPacketsReceived]; }

  std::map<std::uint32_t, std::unique_ptr<Job>> jobs;
  std::shared_future<void> held_up;
  std::thread::id thread;

 private:
  Aggregator aggregator_{small_shape(), {}};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool interrupted_ = false;
};

class LanesTest : public ::testing::Test {
 protected:
  explicit LanesTest(std::chrono::milliseconds timeout = 5s) {
    std::vector<std::unique_ptr<FakeEngine>> engines;
    for (int i = 0; i < 3; ++i) {
      engines.push_back(std::make_unique<FakeEngine>());
      engines_.push_back(engines.back().get());
    }
    lanes_ = std::make_unique<Lanes<FakeEngine>>(std::move(engines), timeout);
  }

  Status add(std::uint32_t id, std::size_t bytes = 1) {
    try {
      lanes_->add_job(id, bytes, [&](const Shard&) { return std::make_unique<FakeEngine::Job>(id, freed_by_); });
    } catch (const Error& error) {
      return error.status();
    }
    return {};
  }
  // Returns how many lanes have the job.
  std::size_t lanes_with(std::uint32_t id) {
    std::size_t count = 0;
    for (const FakeEngine* engine : engines_) count += engine->jobs.contains(id);
    return count;
  }

  std::set<std::thread::id>* freed_by_ = nullptr;
  std::vector<FakeEngine*> engines_;
  std::unique_ptr<Lanes<FakeEngine>> lanes_;
};

class HurriedLanesTest : public LanesTest {
 protected:
  HurriedLanesTest() : LanesTest(20ms) {}
};

TEST_F(LanesTest, AJobIsOnAllLanesUntilItIsRemoved) {
  EXPECT_TRUE(add(7).ok());
  EXPECT_EQ(lanes_with(7), 3u);
  EXPECT_EQ(lanes_->statistics().jobs.size(), 1u);
  EXPECT_EQ(lanes_->statistics().sockets[Counter::kPacketsReceived], 3u) << "each lane's are added";
  lanes_->remove_job(7);
  EXPECT_EQ(lanes_with(7), 0u);
  lanes_->remove_job(7);  // removing it again is no error
}

TEST_F(LanesTest, ASecondJobWithTheSameIdIsRefusedAndTheFirstStays) {
  ASSERT_TRUE(add(7).ok());
  EXPECT_EQ(add(7).code, ErrorCode::kJobRejected);
  EXPECT_EQ(lanes_with(7), 3u);
}

TEST_F(LanesTest, AllJobsTogetherHaveALimitOfMemory) {
  EXPECT_EQ(add(1, kMaxPoolBytes + 1).code, ErrorCode::kJobRejected);
  ASSERT_TRUE(add(1, kMaxPoolBytes - 10).ok());
  EXPECT_EQ(add(2, 11).code, ErrorCode::kJobRejected);
  EXPECT_TRUE(add(2, 10).ok());
  EXPECT_EQ(add(3, 1).code, ErrorCode::kJobRejected);
  lanes_->remove_job(1);
  EXPECT_TRUE(add(3, kMaxPoolBytes - 10).ok()) << "what is removed is free again";
}

TEST_F(LanesTest, MemoryIsFreedByTheCallingThread) {
  std::set<std::thread::id> freed_by;
  freed_by_ = &freed_by;
  ASSERT_TRUE(add(7).ok());
  lanes_->remove_job(7);
  EXPECT_EQ(freed_by, (std::set{std::this_thread::get_id()})) << "a large pool's pages take long to give back";
}

TEST_F(HurriedLanesTest, ALaneThatAnswersTooLateKeepsNothing) {
  std::promise<void> go_on;
  engines_[2]->held_up = go_on.get_future().share();
  const Status status = add(7);
  EXPECT_EQ(status.code, ErrorCode::kSystem) << status.text();
  go_on.set_value();
  // A lane runs commands in order. So the late command, and the one that undoes it, run before this one.
  Status again;
  for (int i = 0; i < 200 && !(again = add(8)).ok(); ++i) std::this_thread::sleep_for(5ms);
  EXPECT_TRUE(again.ok()) << again.text();
  EXPECT_EQ(lanes_with(7), 0u);
  EXPECT_TRUE(add(7).ok()) << "and it can be added again";
}

TEST_F(LanesTest, NothingRunsAfterStop) {
  lanes_->stop();
  EXPECT_EQ(add(7).code, ErrorCode::kShutDown);
  EXPECT_THROW(lanes_->statistics(), Error);
}

}  // namespace
}  // namespace jaxina
