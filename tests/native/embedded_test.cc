// Tests the embedded endpoint, between threads and between processes.
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <limits>
#include <thread>

#include "rdma_engine/base/utf8.h"
#include "rdma_engine/transport/embedded/segment.h"
#include "rdma_engine/transport/endpoint.h"
#include "tests/native/reference.h"

namespace jaxina {
namespace {

using testing::all_reduce_reference;
using testing::random_gradient;

constexpr std::uint32_t kBlock = 256;

// A worker's place in a job, and the memory it shares.
struct EmbeddedMember {
  Membership member;
  EmbeddedConfig embedded;
  std::unique_ptr<Endpoint> join() const { return make_endpoint(member, embedded); }
};

EmbeddedMember config_for(std::uint32_t workers, std::uint32_t worker, const std::string& segment = "",
                          std::uint32_t slots = 8) {
  static const std::uint64_t secret = static_cast<std::uint64_t>(getpid()) << 20;
  static std::atomic<std::uint64_t> next{0};
  const std::uint64_t mine = segment.empty() ? secret + next : secret;
  if (worker + 1 == workers && segment.empty()) ++next;
  const JobShape shape(
      {.devices = workers, .workers = workers, .slots = slots, .block_size = kBlock, .blocks_per_chunk = 4});
  return {{.shape = shape, .worker = worker, .job = 1, .secret = mine, .join_timeout_s = 10}, {.segment = segment}};
}

Status run_to_end(Endpoint& endpoint) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!endpoint.worker().idle()) {
    if (Status status = endpoint.progress(50'000'000); !status.ok()) return status;
    endpoint.worker().pop_completed();
    if (std::chrono::steady_clock::now() > deadline) return {ErrorCode::kTimeout, "test deadline"};
  }
  return {};
}

// Runs body(worker, endpoint) on one thread for each worker.
template <typename Body>
void with_workers(std::uint32_t n, Body body) {
  std::vector<EmbeddedMember> configs;
  for (std::uint32_t w = 0; w < n; ++w) configs.push_back(config_for(n, w));
  std::vector<std::thread> threads;
  for (std::uint32_t w = 0; w < n; ++w) {
    threads.emplace_back([&, w] {
      const std::unique_ptr<Endpoint> endpoint = configs[w].join();
      body(w, *endpoint);
    });
  }
  for (std::thread& t : threads) t.join();
}

TEST(Embedded, ResultsThatAreWrittenPastTheCachesAreBitExact) {
  constexpr std::size_t kCount = 3'000'001;
  const std::vector<std::vector<float>> inputs = {random_gradient(kCount, 1), random_gradient(kCount, 2)};
  std::vector<std::vector<float>> outputs(2, std::vector<float>(kCount, -7));
  with_workers(2, [&](std::uint32_t w, Endpoint& endpoint) {
    endpoint.worker().submit({{{ElementType::kFloat32, kCount, inputs[w].data(), outputs[w].data(), true}}});
    const Status status = run_to_end(endpoint);
    EXPECT_TRUE(status.ok()) << status.text();
  });
  const std::vector<float> expected = all_reduce_reference(inputs, 256);
  for (std::uint32_t w = 0; w < 2; ++w) {
    for (std::size_t i = 0; i < kCount; ++i) ASSERT_TRUE(testing::same(outputs[w][i], expected[i])) << w << " " << i;
  }
}

TEST(Embedded, SumsAreBitExactForEverySize) {
  for (const std::uint32_t n : {1u, 2u, 3u, 5u}) {
    for (const std::size_t count : {1u, 2u, 255u, 256u, 257u, 1024u, 5000u, 8u * 1024u, 100'000u}) {
      std::vector<std::vector<float>> inputs, outputs(n, std::vector<float>(count, -7));
      for (std::uint32_t w = 0; w < n; ++w) inputs.push_back(random_gradient(count, 31 * n + 7 * count + w));
      with_workers(n, [&](std::uint32_t w, Endpoint& endpoint) {
        endpoint.worker().submit({{{ElementType::kFloat32, count, inputs[w].data(), outputs[w].data()}}});
        const Status status = run_to_end(endpoint);
        EXPECT_TRUE(status.ok()) << status.text();
      });
      const std::vector<float> expected = all_reduce_reference(inputs, 256);
      for (std::uint32_t w = 0; w < n; ++w) {
        for (std::size_t i = 0; i < count; ++i) {
          ASSERT_TRUE(testing::same(outputs[w][i], expected[i]))
              << "n " << n << " count " << count << " worker " << w << " element " << i << ": " << outputs[w][i]
              << " instead of " << expected[i];
        }
      }
    }
  }
}

TEST(Embedded, NonFiniteValuesAndInPlace) {
  constexpr std::uint32_t n = 3;
  constexpr std::size_t count = 20'000;
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (const bool in_place : {false, true}) {
    std::vector<std::vector<float>> inputs;
    for (std::uint32_t w = 0; w < n; ++w) inputs.push_back(random_gradient(count, 5 + w));
    inputs[0][3] = inf;
    inputs[1][3] = -inf;
    inputs[2][4] = -inf;
    inputs[0][9000] = nan;
    inputs[1][19'999] = inf;
    inputs[2][19'999] = inf;
    const std::vector<float> expected = all_reduce_reference(inputs, 256);
    std::vector<std::vector<float>> outputs = in_place ? inputs : std::vector(n, std::vector<float>(count, 1));
    with_workers(n, [&](std::uint32_t w, Endpoint& endpoint) {
      const float* in = in_place ? outputs[w].data() : inputs[w].data();
      endpoint.worker().submit({{{ElementType::kFloat32, count, in, outputs[w].data()}}});
      EXPECT_TRUE(run_to_end(endpoint).ok());
    });
    for (std::uint32_t w = 0; w < n; ++w) {
      for (std::size_t i = 0; i < count; ++i) ASSERT_TRUE(testing::same(outputs[w][i], expected[i])) << w << " " << i;
    }
  }
}

TEST(Embedded, ManyCollectivesOfMixedTensorsKeepTheirOrder) {
  constexpr std::uint32_t n = 4;
  constexpr int rounds = 200;
  std::vector<std::vector<std::vector<float>>> floats(rounds);
  std::vector<std::vector<std::vector<std::uint32_t>>> integers(rounds);
  for (int r = 0; r < rounds; ++r) {
    const std::size_t count = 1 + (r * 977) % 6000;
    for (std::uint32_t w = 0; w < n; ++w) {
      floats[r].push_back(random_gradient(count, 1000 * r + w));
      integers[r].emplace_back(17 + r, 0xc0000000u + 12345u * w + r);
    }
  }
  const auto original = floats;
  with_workers(n, [&](std::uint32_t w, Endpoint& endpoint) {
    for (int r = 0; r < rounds; ++r) {
      float* f = floats[r][w].data();
      std::uint32_t* i = integers[r][w].data();
      endpoint.worker().submit({{{ElementType::kFloat32, floats[r][w].size(), f, f},
                                 {ElementType::kFloat32, 0, nullptr, nullptr},
                                 {ElementType::kInt32, integers[r][w].size(), i, i}}});
    }
    EXPECT_TRUE(run_to_end(endpoint).ok());
  });
  for (int r = 0; r < rounds; ++r) {
    const std::vector<float> expected = all_reduce_reference(original[r], 256);
    const std::uint32_t integer = n * (0xc0000000u + r) + 12345u * (0 + 1 + 2 + 3);
    for (std::uint32_t w = 0; w < n; ++w) {
      for (std::size_t i = 0; i < expected.size(); ++i)
        ASSERT_TRUE(testing::same(floats[r][w][i], expected[i])) << r << " " << w << " " << i;
      for (const std::uint32_t value : integers[r][w]) ASSERT_EQ(value, integer) << r;
    }
  }
}

TEST(Embedded, DifferentShapesEndInAnErrorOnAllWorkers) {
  std::atomic<int> mismatches{0};
  with_workers(3, [&](std::uint32_t w, Endpoint& endpoint) {
    std::vector<float> x(w == 2 ? 5000 : 4000, 1.0f);
    endpoint.worker().submit({{{ElementType::kFloat32, x.size(), x.data(), x.data()}}});
    const Status status = run_to_end(endpoint);
    if (status.code == ErrorCode::kMismatch) ++mismatches;
  });
  EXPECT_EQ(mismatches, 3);
}

// Python takes an error's message only if it is UTF-8.
TEST(Embedded, AReasonIsTextWhereverItIsCut) {
  for (const std::string start : {"", "x"}) {
    std::string reason = start;
    for (int i = 0; i < 400; ++i) reason += "é";
    with_workers(2, [&](std::uint32_t w, Endpoint& endpoint) {
      if (w == 0) return endpoint.end({ErrorCode::kWorkerLost, reason});
      std::vector<float> x(1000, 1.0f);
      endpoint.worker().submit({{{ElementType::kFloat32, x.size(), x.data(), x.data()}}});
      const Status status = run_to_end(endpoint);
      EXPECT_EQ(status.code, ErrorCode::kWorkerLost) << status.text();
      EXPECT_GT(status.message.size(), 500u);
      EXPECT_EQ(as_utf8(status.message), status.message);
      EXPECT_EQ(status.message, reason.substr(0, status.message.size()));
    });
  }
}

TEST(Embedded, TwoWorkersWithOneRank) {
  EmbeddedMember config = config_for(2, 0);
  config.member.join_timeout_s = 2;
  EmbeddedMember twin = config;
  std::atomic<int> taken{0}, never{0};
  std::vector<std::thread> threads;
  for (const EmbeddedMember& c : {config, twin}) {
    threads.emplace_back([&, c] {
      try {
        c.join();
      } catch (const Error& error) {
        taken += error.status().code == ErrorCode::kRankTaken;
        never += error.status().code == ErrorCode::kNeverJoined;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(taken, 1);
  EXPECT_EQ(never, 1);
  config_for(2, 1);  // moves on to another secret, so that later tests do not use this test's
}

TEST(Embedded, AWorkerThatStopsWhileItHoldsASlotIsNamedAndHangsNobody) {
  const EmbeddedMember configs[] = {config_for(2, 0), config_for(2, 1)};
  std::unique_ptr<Endpoint> first, second;
  std::thread other([&] { second = configs[1].join(); });
  first = configs[0].join();
  other.join();
  // Takes the slot's lock as a worker does that a SIGSTOP stops while it adds a chunk.
  embedded::SharedSlot& slot = embedded::Segment::open(configs[0].member, configs[0].embedded)->slot(0);
  ASSERT_TRUE(slot.lock.acquire(0, 0));
  slot.holder = 1;

  std::vector<float> x = random_gradient(1000, 0), y = random_gradient(1000, 1);
  const std::vector<float> expected = all_reduce_reference({x, y}, kBlock);
  first->worker().submit({{{ElementType::kFloat32, x.size(), x.data(), x.data()}}});
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(first->progress(100'000'000).ok());
  EXPECT_FALSE(first->worker().idle());
  EXPECT_EQ(first->missing(), std::vector<std::uint32_t>{1});
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));

  // The stopped worker goes on.
  slot.holder = embedded::SharedSlot::kNobody;
  slot.lock.release();
  second->worker().submit({{{ElementType::kFloat32, y.size(), y.data(), y.data()}}});
  std::thread late([&] { EXPECT_TRUE(run_to_end(*second).ok()); });
  EXPECT_TRUE(run_to_end(*first).ok());
  late.join();
  EXPECT_EQ(x, expected);
  EXPECT_EQ(y, expected);
}

TEST(Embedded, AWakeEndsTheWaitOfAMember) {
  constexpr int kWakes = 40;
  const EmbeddedMember configs[] = {config_for(2, 0), config_for(2, 1)};
  std::unique_ptr<Endpoint> waiting, late;
  std::thread other([&] { late = configs[1].join(); });
  waiting = configs[0].join();
  other.join();
  std::vector<float> x(1000, 1.0f);
  waiting->worker().submit({{{ElementType::kFloat32, x.size(), x.data(), x.data()}}});
  std::atomic<int> returned{0};
  std::thread waiter([&] {
    for (int i = 0; i < kWakes; ++i, ++returned) EXPECT_TRUE(waiting->progress(10'000'000'000).ok());
  });
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kWakes; ++i) {
    while (returned < i) std::this_thread::yield();
    std::this_thread::sleep_for(
        std::chrono::milliseconds(2));  // by now it usually sleeps, but the test must pass anyway
    waiting->wake();
  }
  waiter.join();
  // If a wake were lost, the member would only notice at its next look for peers, after up to 50 ms each time.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
}

// Forks a child that joins the named segment and sums once. Then it calls `die`, or sums again if that is empty.
pid_t child_worker(const EmbeddedMember& config, std::size_t count, const std::function<void()>& die = {}) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  try {
    const std::unique_ptr<Endpoint> endpoint = config.join();
    std::vector<float> x = random_gradient(count, config.member.worker);
    endpoint->worker().submit({{{ElementType::kFloat32, count, x.data(), x.data()}}});
    if (!run_to_end(*endpoint).ok()) _exit(2);
    if (die) die();
    std::vector<std::vector<float>> inputs;
    for (std::uint32_t w = 0; w < config.member.shape.workers(); ++w) inputs.push_back(random_gradient(count, w));
    const std::vector<float> expected = all_reduce_reference(inputs, kBlock);
    for (std::size_t i = 0; i < count; ++i)
      if (!testing::same(x[i], expected[i])) _exit(3);
    endpoint->worker().submit({{{ElementType::kFloat32, count, x.data(), x.data()}}});
    const Status second = run_to_end(*endpoint);
    _exit(second.ok() ? 0 : second.code == ErrorCode::kWorkerLost ? 10 : 4);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    _exit(5);
  }
}

std::vector<int> exit_codes(const std::vector<pid_t>& children) {
  std::vector<int> codes;
  for (const pid_t pid : children) {
    int status = 0;
    waitpid(pid, &status, 0);
    codes.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
  }
  return codes;
}

bool segment_exists(const std::string& name) { return access(("/dev/shm/" + name).c_str(), F_OK) == 0; }

TEST(EmbeddedProcesses, SumThroughANamedSegmentWhoseNameIsRemoved) {
  const std::string name = "jaxina-test-" + std::to_string(getpid());
  std::vector<pid_t> children;
  for (std::uint32_t w = 0; w < 3; ++w) children.push_back(child_worker(config_for(3, w, name), 70'000));
  EXPECT_EQ(exit_codes(children), std::vector<int>({0, 0, 0}));
  EXPECT_FALSE(segment_exists(name));
}

TEST(EmbeddedProcesses, SurvivorsLearnOfADeathWithinTwoSeconds) {
  const std::string name = "jaxina-test-death-" + std::to_string(getpid());
  std::vector<pid_t> children;
  const auto start = std::chrono::steady_clock::now();
  const auto die = [] { raise(SIGKILL); };
  for (std::uint32_t w = 0; w < 3; ++w) {
    children.push_back(child_worker(config_for(3, w, name), 1000, w == 1 ? die : std::function<void()>()));
  }
  EXPECT_EQ(exit_codes(children), std::vector<int>({10, -SIGKILL, 10}));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
  EXPECT_FALSE(segment_exists(name));
}

// Runs `worker`, which forks a worker, in a PID namespace of its own, as in another container. The returned process
// ends as the worker does, or with kNoNamespace.
constexpr int kNoNamespace = 77;
pid_t in_other_pid_namespace(const std::function<pid_t()>& worker) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  if (unshare(CLONE_NEWPID) != 0) _exit(kNoNamespace);
  int status = 0;
  waitpid(worker(), &status, 0);
  _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

TEST(EmbeddedProcesses, SurvivorsLearnOfADeathInAnotherPidNamespace) {
  const auto leave_abruptly = [] { _exit(42); };  // not SIGKILL: a namespace's first process survives its own
  if (exit_codes({in_other_pid_namespace([&] { return fork() == 0 ? (leave_abruptly(), 0) : getpid(); })}).front() ==
      kNoNamespace) {
    GTEST_SKIP() << "may not make a PID namespace: needs root";
  }
  const std::string name = "jaxina-test-namespace-" + std::to_string(getpid());
  const EmbeddedMember configs[] = {config_for(3, 0, name), config_for(3, 1, name), config_for(3, 2, name)};
  const auto start = std::chrono::steady_clock::now();
  const std::vector<pid_t> children = {child_worker(configs[0], 1000), in_other_pid_namespace([&] {
                                         return child_worker(configs[1], 1000, leave_abruptly);
                                       }),
                                       in_other_pid_namespace([&] { return child_worker(configs[2], 1000); })};
  EXPECT_EQ(exit_codes(children), std::vector<int>({10, 42, 10}));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
}

TEST(EmbeddedProcesses, AForkedChildThatGoesOnDoesNotHideADeath) {
  const std::string name = "jaxina-test-fork-" + std::to_string(getpid());
  int until_closed[2];
  ASSERT_EQ(pipe(until_closed), 0);
  const auto fork_and_die = [&] {
    if (fork() == 0) {
      close(until_closed[1]);
      char byte;
      static_cast<void>(read(until_closed[0], &byte, 1));
      _exit(0);
    }
    raise(SIGKILL);
  };
  const auto start = std::chrono::steady_clock::now();
  std::vector<pid_t> children;
  for (std::uint32_t w = 0; w < 3; ++w) {
    children.push_back(child_worker(config_for(3, w, name), 1000, w == 1 ? fork_and_die : std::function<void()>()));
  }
  EXPECT_EQ(exit_codes(children), std::vector<int>({10, -SIGKILL, 10}));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
  close(until_closed[0]);
  close(until_closed[1]);
}

TEST(EmbeddedProcesses, AForkedChildThatEndsIsNotADeath) {
  const std::string name = "jaxina-test-fork-ends-" + std::to_string(getpid());
  const auto fork_once = [] {
    const pid_t child = fork();
    if (child == 0) _exit(0);
    waitpid(child, nullptr, 0);
  };
  std::vector<pid_t> children;
  for (std::uint32_t w = 0; w < 3; ++w) children.push_back(child_worker(config_for(3, w, name), 1000, fork_once));
  EXPECT_EQ(exit_codes(children), std::vector<int>({0, 0, 0}));
}

TEST(EmbeddedProcesses, AWorkerThatNeverComesIsNamed) {
  EmbeddedMember config = config_for(2, 0, "jaxina-test-never-" + std::to_string(getpid()));
  config.member.join_timeout_s = 0.3;
  try {
    config.join();
    FAIL() << "joined alone";
  } catch (const Error& error) {
    EXPECT_EQ(error.status().code, ErrorCode::kNeverJoined);
    EXPECT_NE(error.status().message.find(": 1."), std::string::npos) << error.what();
  }
  EXPECT_FALSE(segment_exists(config.embedded.segment));
}

// The process may not write files of that size. That has the same effect as a full file system.
TEST(EmbeddedProcesses, MemoryThatCannotBeReservedIsATypedError) {
  const EmbeddedMember config = config_for(2, 0, "jaxina-test-full-" + std::to_string(getpid()), 1000);
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1 << 20, 1 << 20};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(2);
    try {
      config.join();
    } catch (const Error& error) {
      _exit(error.status().code == ErrorCode::kSharedMemory ? 0 : 3);
    }
    _exit(4);
  }
  EXPECT_EQ(exit_codes({child}), std::vector<int>{0});
  EXPECT_FALSE(segment_exists(config.embedded.segment));
}

}  // namespace
}  // namespace jaxina
