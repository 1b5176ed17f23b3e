// Tests the node, the aggregator within a process. Devices of one process must get the same bits as the same devices in
// processes of their own, over shared memory and over a network that loses and duplicates packets. And whatever ends a
// group must end it for all its devices.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <csignal>
#include <cstring>
#include <future>
#include <mutex>
#include <thread>
#include <utility>

#include "tests/native/node_fixture.h"
#include "tests/native/udp_relay.h"

namespace jaxina {
namespace {

using testing::Faults;
using testing::UdpRelay;
using namespace testing::nodes;

TEST(Node, EveryTopologyGivesTheBitsOfTheFlatOne) {
  for (const bool finite : {true, false}) {
    // Elements within a block, an odd number over several chunks, and enough for several threads of one process.
    for (const std::size_t count : {1u, 777u, 5000u, 20'000u}) {
      const std::vector<Operands> devices = operands(4, count, count + finite, finite);
      const Operands expected = flat(devices, count);
      for (const Processes& processes :
           {Processes{4}, Processes{2, 2}, Processes{1, 3}, Processes{3, 1}, Processes{1, 2, 1}}) {
        for (const bool in_place : {false, true}) {
          std::vector<Operands> mine = devices;
          Cluster cluster(configs_for(processes));
          sum(cluster, mine, count, in_place, 2);
          expect_equal(mine, expected, count);
        }
      }
    }
  }
}

TEST(Node, AFloatSumEqualsTheSpecification) {
  constexpr std::size_t count = 3000;
  std::vector<std::vector<float>> inputs, outputs(6, std::vector<float>(count));
  for (std::uint32_t d = 0; d < 6; ++d) inputs.push_back(testing::random_gradient(count, 40 + d));
  const std::vector<float> expected = testing::all_reduce_reference(inputs, kBlock);
  for (const Processes& processes : {Processes{6}, Processes{4, 2}, Processes{2, 2, 2}}) {
    Cluster cluster(configs_for(processes));
    std::vector<std::future<Status>> done;
    for (std::uint32_t d = 0; d < 6; ++d) {
      done.push_back(cluster.submit(d, {{{ElementType::kFloat32, count, inputs[d].data(), outputs[d].data()}}}));
    }
    for (auto& future : done) EXPECT_TRUE(outcome(future).ok());
    for (const std::vector<float>& output : outputs) {
      for (std::size_t i = 0; i < count; ++i) ASSERT_TRUE(testing::same(output[i], expected[i])) << i;
    }
  }
}

TEST(Node, OverANetworkThatLosesDuplicatesAndReordersTheBitsAreTheSame) {
  constexpr std::size_t count = 3000;
  const Processes processes{2, 3};
  SoftwareSwitch software_switch({.ports = {}, .threads = 1});
  ASSERT_TRUE((software_switch.add_job(job_for(processes)), true));
  UdpRelay relay(software_switch.ports()[0], Faults{.lose = 0.05, .duplicate = 0.1, .delay = 0.1}, 3);
  std::vector<Operands> devices = operands(5, count, 8, false);
  const Operands expected = flat(devices, count);
  std::uint64_t again = 0;
  {
    Cluster cluster(udp_configs(processes, {relay.port()}));
    sum(cluster, devices, count, true, 3);
    again = cluster.node(0).statistics()[Counter::kRetransmissions] +
            cluster.node(1).statistics()[Counter::kRetransmissions];
  }
  relay.stop();
  expect_equal(devices, expected, count);
  EXPECT_GT(relay.counts().lost, 0u);
  EXPECT_GT(relay.counts().duplicated, 0u);
  EXPECT_GT(again, 0u);
}

// Sums float32 over a network. Returns how many passes were sent for the first time, over all processes, and sets
// `bytes` to the bytes on the wire, or to 0 if something was sent again.
std::uint64_t passes(const Processes& processes, std::uint64_t& bytes) {
  constexpr std::size_t count = 10'000;
  SoftwareSwitch software_switch({.ports = {}, .threads = 1});
  software_switch.add_job(job_for(processes));
  const std::uint32_t n = total(processes);
  std::vector<std::vector<float>> x(n, std::vector<float>(count, 1.5f));
  Cluster cluster(udp_configs(processes, software_switch.ports()));
  std::vector<std::future<Status>> done;
  for (std::uint32_t d = 0; d < n; ++d) {
    done.push_back(cluster.submit(d, {{{ElementType::kFloat32, count, x[d].data(), x[d].data()}}}));
  }
  for (auto& future : done) EXPECT_TRUE(outcome(future).ok());
  EXPECT_EQ(x[0][0], 1.5f * static_cast<float>(n));
  std::uint64_t first = 0, again = 0;
  bytes = 0;
  for (std::size_t w = 0; w < processes.size(); ++w) {
    const Counters counters = cluster.node(w).statistics();
    EXPECT_EQ(counters[Counter::kCollectives], processes[w]);
    first += counters[Counter::kPacketsSent] - counters[Counter::kRetransmissions];
    again += counters[Counter::kRetransmissions];
    bytes += counters[Counter::kBytesSent];
  }
  if (again > 0) bytes = 0;
  return first;
}

TEST(Node, OneStreamLeavesAProcessHoweverManyDevicesItHas) {
  std::uint64_t one = 0, four = 0;
  EXPECT_EQ(passes({1, 1}, one), passes({4, 4}, four));
  if (one != 0 && four != 0) {
    EXPECT_EQ(one, four);
  }
}

TEST(Node, AGroupWithinOneProcessSendsNothing) {
  Cluster cluster(udp_configs({3}, {}));  // there is no switch that could answer
  std::vector<Operands> devices = operands(3, 5000, 1, false);
  sum(cluster, devices, 5000, false);
  EXPECT_EQ(cluster.node(0).statistics()[Counter::kPacketsSent], 0u);
  EXPECT_EQ(cluster.node(0).statistics()[Counter::kCollectives], 3u);
}

TEST(Node, ManyCollectivesInFlightKeepTheirOrderOnEveryDevice) {
  constexpr int rounds = 300;
  for (const Processes& processes : {Processes{3}, Processes{2, 1}}) {
    Cluster cluster(configs_for(processes));
    std::vector<std::thread> devices;
    std::atomic<int> wrong = 0;
    for (std::uint32_t d = 0; d < 3; ++d) {
      devices.emplace_back([&, d] {
        std::vector<std::vector<std::uint32_t>> x;
        std::vector<std::future<Status>> done;
        for (std::uint32_t r = 0; r < rounds; ++r) x.emplace_back(1 + r * 37 % 400, r * (d + 1));
        for (std::vector<std::uint32_t>& row : x) {
          done.push_back(cluster.submit(d, {{{ElementType::kInt32, row.size(), row.data(), row.data()}}}));
        }
        for (auto& future : done) wrong += !outcome(future).ok();
        for (std::uint32_t r = 0; r < rounds; ++r) {
          wrong +=
              static_cast<int>(std::count_if(x[r].begin(), x[r].end(), [&](std::uint32_t v) { return v != 6 * r; }));
        }
      });
    }
    for (std::thread& device : devices) device.join();
    EXPECT_EQ(wrong, 0);
  }
}

TEST(Node, LocalDevicesThatDisagreeEndTheGroupForAllProcesses) {
  std::vector<float> x(100, 1);
  const auto of = [&](std::size_t count) { return Collective{{{ElementType::kFloat32, count, x.data(), x.data()}}}; };
  for (const Processes& processes : {Processes{3}, Processes{2, 1}}) {
    std::atomic<int> told = 0;
    Cluster cluster(configs_for(processes), [&](const Status& reason) { told += reason.code == ErrorCode::kMismatch; });
    std::vector<std::future<Status>> done;
    done.push_back(cluster.submit(0, of(10)));
    done.push_back(cluster.submit(1, of(20)));
    done.push_back(cluster.submit(2, of(10)));
    for (auto& future : done) {
      const Status status = outcome(future);
      EXPECT_EQ(status.code, ErrorCode::kMismatch) << status.text();
      EXPECT_NE(status.message.find("devices 0 and 1"), std::string::npos) << status.text();
    }
    EXPECT_EQ(told, processes.size() > 1 ? 1 : 0);
    std::future<Status> later = cluster.submit(0, of(10));
    EXPECT_EQ(outcome(later).code, ErrorCode::kMismatch);
  }
}

TEST(Node, ADeviceThatNeverComesIsNamed) {
  for (const Processes& processes : {Processes{3}, Processes{2, 1}}) {
    std::vector<GroupConfig> configs = configs_for(processes);
    for (GroupConfig& config : configs) config.collective_timeout_s = 1;
    Cluster cluster(configs);
    std::uint32_t x = 1, y = 1;
    std::future<Status> first = cluster.submit(0, {{{ElementType::kInt32, 1, &x, &x}}});
    std::future<Status> last = cluster.submit(2, {{{ElementType::kInt32, 1, &y, &y}}});
    const Status status = outcome(first);
    EXPECT_EQ(status.code, ErrorCode::kTimeout);
    EXPECT_NE(status.message.find("did not reach this sum: 1."), std::string::npos) << status.text();
    EXPECT_EQ(outcome(last).code, ErrorCode::kTimeout);
  }
}

// Stops this process, and lets it go on after this time. A child continues it.
void stop_this_process(useconds_t microseconds) {
  const pid_t stopped = getpid();
  const pid_t waker = fork();
  if (waker == 0) {
    usleep(microseconds);
    kill(stopped, SIGCONT);
    _exit(0);
  }
  raise(SIGSTOP);
  waitpid(waker, nullptr, 0);
}

TEST(Node, TheTimeInWhichTheProcessIsStoppedIsNoWaiting) {
  for (const Processes& processes : {Processes{2}, Processes{1, 1}}) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      std::vector<GroupConfig> configs = configs_for(processes);
      for (GroupConfig& config : configs) config.collective_timeout_s = 2;
      Cluster cluster(configs);
      std::uint32_t x = 1, y = 2;
      std::future<Status> first = cluster.submit(0, {{{ElementType::kInt32, 1, &x, &x}}});
      stop_this_process(3'000'000);
      usleep(500'000);  // long enough to look at the deadline twice
      std::future<Status> last = cluster.submit(1, {{{ElementType::kInt32, 1, &y, &y}}});
      const bool summed = outcome(first).ok() && outcome(last).ok() && x == 3 && y == 3;
      _exit(summed ? 0 : 1);
    }
    int ended = 0;
    waitpid(child, &ended, 0);
    EXPECT_TRUE(WIFEXITED(ended) && WEXITSTATUS(ended) == 0) << "processes: " << processes.size();
  }
}

TEST(Node, AbortAndCloseEndWaitingCollectives) {
  for (const Processes& processes : {Processes{2}, Processes{1, 1}}) {
    std::uint32_t x = 1;
    std::future<Status> aborted, closed;
    {
      Cluster cluster(configs_for(processes));
      aborted = cluster.submit(0, {{{ElementType::kInt32, 1, &x, &x}}});
      for (std::size_t w = 0; w < processes.size(); ++w)
        cluster.node(w).abort({ErrorCode::kWorkerLost, "worker 7 died"});
      EXPECT_EQ(outcome(aborted).message, "worker 7 died");
    }
    {
      Cluster cluster(configs_for(processes));
      closed = cluster.submit(0, {{{ElementType::kInt32, 1, &x, &x}}});
    }
    EXPECT_EQ(outcome(closed).code, ErrorCode::kShutDown);
  }
}

// A group of two devices in this process. The first completion of device 0 does not return until the test lets it.
class Blocked {
 public:
  Blocked() { sum(*cluster_, devices_, kCount, false); }
  ~Blocked() { let_go(); }

  // Sums one element. Device 0's completion records the number; its first completion waits before that.
  std::future<Status> submit(std::uint32_t device, int number = 0) {
    auto promise = std::make_shared<std::promise<Status>>();
    std::future<Status> future = promise->get_future();
    Collective one = devices_[device].collective(kCount, false);
    cluster_->node(0).submit(device, std::move(one), [this, device, number, promise](Status status) {
      if (device == 0 && number == 0) released_.wait();
      if (device == 0) {
        const std::lock_guard guard(mutex_);
        order_.push_back(number);
      }
      promise->set_value(std::move(status));
    });
    return future;
  }
  void let_go() {
    if (!std::exchange(blocked_, false)) return;
    release_.set_value();
  }
  std::vector<int> order() {
    const std::lock_guard guard(mutex_);
    return order_;
  }
  Node& node() { return cluster_->node(0); }

 private:
  static constexpr std::size_t kCount = 1;
  std::vector<Operands> devices_ = operands(2, kCount, 3, true);
  bool blocked_ = true;
  std::promise<void> release_;
  std::shared_future<void> released_ = release_.get_future().share();
  std::mutex mutex_;
  std::vector<int> order_;
  // The last member, so that it is destroyed first: its end calls completions, which use the members above.
  std::unique_ptr<Cluster> cluster_ = std::make_unique<Cluster>(configs_for({2}));
};

TEST(Node, ACompletionOnTheSubmittingThreadOvertakesNone) {
  Blocked group;
  std::vector<std::future<Status>> done;
  // The device that comes last sums. In the third round that is device 0, whose completions are held up.
  for (const auto& [device, number] : {std::pair{0u, 0}, {1u, 0}, {0u, 1}, {1u, 1}, {1u, 2}, {0u, 2}}) {
    done.push_back(group.submit(device, number));
  }
  EXPECT_EQ(group.order(), std::vector<int>{});
  group.let_go();
  for (auto& future : done) EXPECT_TRUE(outcome(future).ok());
  EXPECT_EQ(group.order(), (std::vector<int>{0, 1, 2}));
}

TEST(Node, AFailureOnTheSubmittingThreadOvertakesNone) {
  Blocked group;
  std::vector<std::future<Status>> done;
  done.push_back(group.submit(0, 0));
  std::future<Status> summed = group.submit(1);
  EXPECT_EQ(outcome(summed).code, ErrorCode::kOk);
  done.push_back(group.submit(0, 1));
  group.node().abort({ErrorCode::kWorkerLost, "worker 1 died"});
  // When device 1 has its error, the group has ended.
  std::future<Status> other = group.submit(1);
  EXPECT_EQ(outcome(other).code, ErrorCode::kWorkerLost);
  done.push_back(group.submit(0, 2));
  EXPECT_EQ(group.order(), std::vector<int>{});
  group.let_go();
  std::vector<ErrorCode> codes;
  for (auto& future : done) codes.push_back(outcome(future).code);
  using enum ErrorCode;
  EXPECT_EQ(codes, (std::vector<ErrorCode>{kOk, kWorkerLost, kWorkerLost}));
  EXPECT_EQ(group.order(), (std::vector<int>{0, 1, 2}));
}

TEST(Node, NarrowWordsThatCannotBeEndTheGroupForAllDevices) {
  // Sizes that the last device's thread sums, that the node's thread sums, and that several threads sum.
  for (const std::size_t count : {8u, 40'000u, 200'000u}) {
    std::vector<GroupConfig> configs = configs_for({2});
    configs[0].member.shape =
        JobShape({.devices = 2, .workers = 1, .slots = 8, .block_size = 10, .blocks_per_chunk = 4});
    configs[0].collective_timeout_s = 20;
    Cluster cluster(configs);
    std::vector<float> x(count), y(count);
    const auto submit = [&](std::uint32_t device, numerics::WireWord word) {
      Tensor tensor{ElementType::kFloat32, count, x.data(), device == 0 ? x.data() : y.data()};
      tensor.word = word;
      return cluster.submit(device, {{tensor}});
    };
    for (const auto& [word, code] : {std::pair{numerics::WireWord::kInt32, ErrorCode::kOk},
                                     std::pair{numerics::WireWord::kInt8, ErrorCode::kInvalidArgument},
                                     std::pair{numerics::WireWord::kInt32, ErrorCode::kInvalidArgument}}) {
      std::future<Status> first = submit(0, word), last = submit(1, word);
      EXPECT_EQ(outcome(first).code, code) << count;
      EXPECT_EQ(outcome(last).code, code) << count;
    }
  }
}

TEST(Node, NarrowWordsOfUnequalProcessesAreRefused) {
  // In the third group, the first process has as many devices as if all had equally many.
  for (const Processes& processes : {Processes{1, 3}, Processes{1, 2}, Processes{2, 1, 3}}) {
    Cluster cluster(configs_for(processes));
    std::vector<float> values(total(processes), 1);
    std::vector<std::future<Status>> done;
    for (std::uint32_t d = 0; d < total(processes); ++d) {
      Tensor tensor{ElementType::kFloat32, 1, &values[d], &values[d]};
      tensor.word = numerics::WireWord::kInt8;
      done.push_back(cluster.submit(d, {{tensor}}));
    }
    for (auto& future : done) EXPECT_EQ(outcome(future).code, ErrorCode::kInvalidArgument);
  }
}

TEST(Node, PartsOfACollectiveAreWholeBlocksAndCoverIt) {
  std::vector<std::byte> memory(1 << 20);
  Collective whole;
  whole.tensors = {{ElementType::kFloat32, 1000, memory.data(), memory.data()},
                   {ElementType::kInt8, 0, memory.data() + 8000, memory.data() + 8000},
                   {ElementType::kFloat64, 333, memory.data() + 16000, memory.data() + 16000},
                   {ElementType::kInt8, 70, memory.data() + 30000, memory.data() + 30000}};
  for (const std::size_t parts : {1u, 2u, 3u, 7u, 64u, 500u}) {
    std::vector<std::size_t> covered(whole.tensors.size());
    std::size_t tensor = 0;
    for (std::size_t part = 0; part < parts; ++part) {
      for (const Tensor& piece : part_of(whole, part, parts, kBlock).tensors) {
        while (piece.in >= static_cast<const std::byte*>(whole.tensors[tensor].in) +
                               whole.tensors[tensor].count * size_of(whole.tensors[tensor].type)) {
          ++tensor;
        }
        ASSERT_EQ(piece.type, whole.tensors[tensor].type);
        ASSERT_EQ(piece.in,
                  static_cast<const std::byte*>(whole.tensors[tensor].in) + covered[tensor] * size_of(piece.type));
        ASSERT_EQ(covered[tensor] % (kBlock / numerics::element_codec(piece.type).words), 0u);
        covered[tensor] += piece.count;
      }
    }
    for (std::size_t t = 0; t < covered.size(); ++t) EXPECT_EQ(covered[t], whole.tensors[t].count);
  }
}

}  // namespace
}  // namespace jaxina
