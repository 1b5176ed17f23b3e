// Tests the engine in processes that may start no more threads, and in forked processes. There must be an error at
// once, never a hang, and nothing may disturb the parent. Each test runs in a child process, because a process has only
// one engine.
#include <grp.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <future>
#include <memory>
#include <system_error>
#include <thread>
#include <vector>

#include "rdma_engine/engine/engine.h"

namespace jaxina {
namespace {

const Group kGroup = {0, 1};
constexpr std::size_t kSmall = 1000, kTogether = 200'000;  // elements; several threads sum kTogether

GroupConfig config_of(const Group&) {
  const JobShape shape({.devices = 2, .workers = 1, .slots = 8, .block_size = 256, .blocks_per_chunk = 1});
  return {.member = {.shape = shape}, .local = {0, 1}, .transport = {}};
}

void start(Engine::Connector connector = config_of) {
  Engine::instance().start(std::move(connector), [](const Group&, const Status&) {});
}

// One device's part of a sum of ones.
struct Part {
  std::vector<float> values;
  std::future<Status> ended;

  ErrorCode code() {
    if (ended.wait_for(std::chrono::seconds(10)) != std::future_status::ready) return ErrorCode::kTimeout;
    const Status status = ended.get();
    if (status.code == ErrorCode::kSystem) {
      EXPECT_NE(status.message.find("cannot start a thread"), std::string::npos) << status.message;
    }
    return status.code;
  }
};

std::unique_ptr<Part> submit(std::int64_t device, std::size_t count = kSmall) {
  auto part = std::make_unique<Part>();
  part->values.assign(count, 1.0f);
  auto promise = std::make_shared<std::promise<Status>>();
  part->ended = promise->get_future();
  float* const values = part->values.data();
  Engine::instance().submit(kGroup, device, {{{ElementType::kFloat32, count, values, values}}},
                            [promise](Status status) { promise->set_value(std::move(status)); });
  return part;
}

void expect_sum() {
  const auto first = submit(0), second = submit(1);
  EXPECT_EQ(first->code(), ErrorCode::kOk);
  EXPECT_EQ(second->code(), ErrorCode::kOk);
  EXPECT_EQ(first->values, std::vector<float>(kSmall, 2.0f));
  EXPECT_EQ(second->values, first->values);
}

ErrorCode code_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.status().code;
  }
  return ErrorCode::kOk;
}

constexpr int kPassed = 0, kFailed = 1, kNotHere = 77;

// Runs the body in a child process and returns how the child ends. If it hangs, SIGALRM ends it.
int in_child(const std::function<void()>& body) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    [&]() noexcept { body(); }();  // noexcept, because an exception would make the child run the other tests
    std::fflush(nullptr);
    _exit(::testing::Test::HasFailure() ? kFailed : kPassed);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

// While an object of this class lives, the process may start no thread.
class NoThreads {
 public:
  NoThreads() {
    getrlimit(RLIMIT_NPROC, &before_);
    const rlimit none{0, before_.rlim_max};
    setrlimit(RLIMIT_NPROC, &none);
  }
  ~NoThreads() { setrlimit(RLIMIT_NPROC, &before_); }

 private:
  rlimit before_{};
};

// Does the same as in_child(), but as a user other than root: such limits do not bind root.
int in_limited_child(const std::function<void()>& body) {
  return in_child([&] {
    constexpr uid_t kNobody = 65534;
    if (geteuid() == 0 && (setgroups(0, nullptr) != 0 || setresgid(kNobody, kNobody, kNobody) != 0 ||
                           setresuid(kNobody, kNobody, kNobody) != 0)) {
      _exit(kNotHere);
    }
    try {
      const NoThreads limit;
      std::thread([] {}).join();
      _exit(kNotHere);
    } catch (const std::system_error&) {
    }
    body();
  });
}

void expect_passed(int code) {
  if (code == kNotHere) GTEST_SKIP() << "no limit on threads binds this process";
  EXPECT_EQ(code, kPassed);
}

TEST(NoThread, AGroupWithoutAThreadFails) {
  expect_passed(in_limited_child([] {
    start();
    {
      const NoThreads limit;
      EXPECT_EQ(submit(0)->code(), ErrorCode::kSystem);
    }
    EXPECT_EQ(submit(1)->code(), ErrorCode::kSystem);  // it must not wait for device 0
    Engine::instance().shutdown();
    start();
    expect_sum();
    Engine::instance().shutdown();
  }));
}

TEST(NoThread, ASubmittingDeviceWithoutAThreadEndsTheGroup) {
  expect_passed(in_limited_child([] {
    std::promise<void> release;
    start([&](const Group& group) {
      release.get_future().wait();
      return config_of(group);
    });
    const auto first = submit(0);
    {
      const NoThreads limit;
      EXPECT_EQ(submit(1)->code(), ErrorCode::kSystem);
    }
    release.set_value();
    EXPECT_EQ(first->code(), ErrorCode::kSystem);
    Engine::instance().shutdown();
  }));
}

TEST(NoThread, AnotherDeviceWithoutAThreadEndsTheGroup) {
  expect_passed(in_limited_child([] {
    std::promise<void> submitted;
    std::unique_ptr<NoThreads> limit;
    start([&](const Group& group) {
      submitted.get_future().wait();
      limit = std::make_unique<NoThreads>();
      return config_of(group);
    });
    const auto first = submit(0);
    submitted.set_value();
    EXPECT_EQ(first->code(), ErrorCode::kSystem);
    EXPECT_EQ(submit(1)->code(), ErrorCode::kSystem);
    Engine::instance().shutdown();
  }));
}

TEST(NoThread, ASumWithoutHelperThreadsFails) {
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "one processor: a sum has no helpers";
  expect_passed(in_limited_child([] {
    start();
    expect_sum();
    {
      const NoThreads limit;
      const auto first = submit(0, kTogether), second = submit(1, kTogether);
      EXPECT_EQ(first->code(), ErrorCode::kSystem);
      EXPECT_EQ(second->code(), ErrorCode::kSystem);
    }
    Engine::instance().shutdown();
  }));
}

// Dropping a Python callable waits for the GIL, whose holder may be asking the engine something.
TEST(Shutdown, DropsTheCallablesWhileNobodyNeedsToWaitForTheEngine) {
  expect_passed(in_child([] {
    Engine& engine = Engine::instance();
    std::future<bool> other;
    std::shared_ptr<int> dropped(new int, [&](const int* number) {
      delete number;
      other = std::async(std::launch::async, [&] { return engine.running(); });
      EXPECT_EQ(other.wait_for(std::chrono::seconds(10)), std::future_status::ready);
    });
    start([dropped = std::move(dropped)](const Group& group) { return config_of(group); });
    engine.shutdown();
    EXPECT_TRUE(other.valid());
  }));
}

TEST(Fork, TheChildHasNoEngineAndMayStartItsOwn) {
  expect_passed(in_child([] {
    Engine& engine = Engine::instance();
    start();
    expect_sum();
    expect_passed(in_child([&] {
      EXPECT_FALSE(engine.running());
      EXPECT_EQ(submit(0)->code(), ErrorCode::kNotInitialized);
      EXPECT_EQ(code_of([&] { engine.statistics(); }), ErrorCode::kNotInitialized);
      EXPECT_EQ(code_of([&] { engine.abort({}, {ErrorCode::kWorkerLost, "a test"}); }), ErrorCode::kNotInitialized);
      EXPECT_EQ(code_of([&] { engine.take_trace(); }), ErrorCode::kNotInitialized);
      EXPECT_EQ(code_of([&] { engine.shutdown(); }), ErrorCode::kNotInitialized);
      expect_passed(in_child([&] { EXPECT_EQ(submit(0)->code(), ErrorCode::kNotInitialized); }));
#if !defined(__SANITIZE_THREAD__)  // under ThreadSanitizer a forked child may start no thread
      start();
      expect_sum();
      EXPECT_EQ(engine.statistics()[Counter::kCollectives], 2u);
      engine.shutdown();
#endif
    }));
    expect_sum();
    EXPECT_EQ(engine.statistics()[Counter::kCollectives], 4u);
    engine.shutdown();
    expect_passed(in_child([&] { EXPECT_EQ(code_of([&] { engine.statistics(); }), ErrorCode::kOk); }));
  }));
}

TEST(Fork, LocksHeldDuringTheForkDoNotBlockTheChild) {
  expect_passed(in_child([] {
    Engine& engine = Engine::instance();
    start();
    std::atomic<bool> stop = false;
    std::thread busy([&] {
      while (!stop) engine.statistics();
    });
    for (int i = 0; i < 200; ++i) {
      expect_passed(in_child([&] { EXPECT_EQ(submit(0)->code(), ErrorCode::kNotInitialized); }));
    }
    stop = true;
    busy.join();
    engine.shutdown();
  }));
}

}  // namespace
}  // namespace jaxina
