// Tests tensors on devices. Their sums have the bits of the same tensors in host memory, in every topology and over
// every transport. The host never reads a tensor. And whatever ends a group ends it with the right reason, even while a
// device is working.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include "tests/native/device_fixture.h"
#include "tests/native/udp_relay.h"

namespace jaxina {
namespace {

using testing::Faults;
using testing::UdpRelay;
using namespace testing::nodes;

TEST(Devices, EveryTopologyGivesTheBitsOfHostTensors) {
  for (const bool finite : {true, false}) {
    // Elements within a block, an odd number over several chunks, and so many that slots are used several times.
    for (const std::size_t count : {1u, 777u, 5000u}) {
      const std::vector<Operands> operands_of_all = operands(3, count, 3 * count + finite, finite);
      const Operands expected = flat(operands_of_all, count);
      for (const Processes& processes : {Processes{3}, Processes{1, 1, 1}, Processes{2, 1}}) {
        for (const bool in_place : {false, true}) {
          std::vector<Operands> mine = operands_of_all;
          Cluster cluster(configs_for(processes));
          sum_on_devices(cluster, mine, count, in_place);
          expect_equal(mine, expected, count);
        }
      }
    }
  }
}

TEST(Devices, HostAndDeviceProcessesSumTogether) {
  constexpr std::size_t count = 3000;
  std::vector<Operands> all = operands(2, count, 11, false);
  const Operands expected = flat(all, count);
  Cluster cluster(configs_for({1, 1}));
  std::vector<Operands> second = {all[1]};
  std::vector<Resident> device = on_devices(second, false);
  std::future<Status> host = cluster.submit(0, all[0].collective(count, false));
  std::future<Status> other = cluster.submit(1, device[0].collective(count));
  EXPECT_TRUE(outcome(host).ok());
  EXPECT_TRUE(outcome(other).ok());
  read_back(device, second);
  all[1] = second[0];
  expect_equal(all, expected, count);
}

TEST(Devices, OverANetworkThatLosesDuplicatesAndReordersTheBitsAreTheSame) {
  constexpr std::size_t count = 2000;
  const Processes processes{1, 2};
  SoftwareSwitch software_switch({.ports = {}, .threads = 1});
  ASSERT_TRUE((software_switch.add_job(job_for(processes)), true));
  UdpRelay relay(software_switch.ports()[0], Faults{.lose = 0.05, .duplicate = 0.1, .delay = 0.1}, 3);
  std::vector<Operands> mine = operands(3, count, 8, false);
  const Operands expected = flat(mine, count);
  {
    Cluster cluster(udp_configs(processes, {relay.port()}));
    sum_on_devices(cluster, mine, count, true);
  }
  relay.stop();
  expect_equal(mine, expected, count);
  EXPECT_GT(relay.counts().lost, 0u);
}

TEST(Devices, ManyCollectivesAreUnderWayAtOnce) {
  constexpr int kRounds = 60;
  for (const Processes& processes : {Processes{2}, Processes{1, 1}}) {
    Many many(2);
    Cluster cluster(configs_for(processes));
    std::vector<std::byte*> tensors[2];
    std::vector<std::future<Status>> done;
    for (int r = 0; r < kRounds; ++r) {
      const std::size_t count = 1 + r * 97 % 900;
      for (std::uint32_t d = 0; d < 2; ++d) {
        tensors[d].push_back(many.tensor(d, count, static_cast<float>(r * (d + 1))));
        done.push_back(cluster.submit(d, many.collective(d, tensors[d].back(), count)));
      }
    }
    for (auto& future : done) {
      const Status status = outcome(future);
      ASSERT_TRUE(status.ok()) << status.text();
    }
    for (int r = 0; r < kRounds; ++r) {
      for (std::uint32_t d = 0; d < 2; ++d) EXPECT_EQ(many.first(d, tensors[d][r]), 3.0f * static_cast<float>(r)) << r;
    }
  }
}

TEST(Devices, TasksThatComeWhileADeviceIsBusyShareABatch) {
  constexpr std::size_t count = 100 * 4 * kBlock;  // 100 chunks over 8 slots
  Many many(1);
  std::vector<GroupConfig> configs = configs_for({1});
  many.devices[0]->hold();
  Cluster cluster(configs);
  std::byte* const tensor = many.tensor(0, count, 2);
  std::future<Status> done = cluster.submit(0, many.collective(0, tensor, count));
  many.devices[0]->release();
  EXPECT_TRUE(outcome(done).ok());
  EXPECT_EQ(many.devices[0]->most_tasks() > 2, true);
  // If chunks did not share batches, each would need one at least, for its look-ahead or its data.
  EXPECT_LT(many.devices[0]->batches(), 100u);
}

TEST(Devices, ADeviceThatFailsEndsTheGroupForAll) {
  for (const Processes& processes : {Processes{2}, Processes{1, 1}}) {
    for (const std::uint64_t ticket : {1u, 3u}) {
      constexpr std::size_t count = 20'000;
      Many many(2);
      many.devices[1]->fail_from(ticket);
      std::atomic<int> told = 0;
      Cluster cluster(configs_for(processes), [&](const Status&) { ++told; });
      std::vector<std::future<Status>> done;
      for (std::uint32_t d = 0; d < 2; ++d) {
        done.push_back(cluster.submit(d, many.collective(d, many.tensor(d, count, 1), count)));
      }
      for (auto& future : done) {
        const Status status = outcome(future);
        EXPECT_EQ(status.code, ErrorCode::kSystem) << status.text();
        EXPECT_EQ(status.message, "the fake device failed");
      }
      EXPECT_EQ(told, processes.size() > 1 ? 1 : 0);
    }
  }
}

// The other process never contributes. This process's device has contributed, or is just about to (`held`).
TEST(Devices, AbortTimeoutAndCloseEndWaitingCollectives) {
  constexpr std::size_t count = 20'000;
  for (const bool held : {false, true}) {
    for (const std::string end : {"abort", "timeout", "close"}) {
      Many many(1);
      std::future<Status> done;
      {
        std::vector<GroupConfig> configs = configs_for({1, 1});
        if (end == "timeout") configs[0].collective_timeout_s = 1;
        Cluster cluster(configs);
        if (held) many.devices[0]->hold();
        done = cluster.submit(0, many.collective(0, many.tensor(0, count, 1), count));
        if (held) {
          // Giving up waits for the device, because the device uses the tensors until it is done. So release it.
          std::thread([&] {
            while (many.devices[0]->batches() == 0) std::this_thread::yield();
            many.devices[0]->release();
          }).join();
        }
        if (end == "abort") cluster.node(0).abort({ErrorCode::kWorkerLost, "worker 1 died"});
        if (end != "close") {
          const Status status = outcome(done);
          EXPECT_EQ(status.code, end == "abort" ? ErrorCode::kWorkerLost : ErrorCode::kTimeout) << status.text();
        }
      }
      if (end == "close") {
        EXPECT_EQ(outcome(done).code, ErrorCode::kShutDown);
      }
    }
  }
}

// The same for devices of one process. The sum takes many batches, so it is not complete with those that are under way.
TEST(Devices, AbortAndTimeoutEndSumsWithinAProcess) {
  constexpr std::size_t count = 200'000;
  for (const std::string end : {"abort", "timeout"}) {
    Many many(2);
    std::vector<GroupConfig> configs = configs_for({2});
    if (end == "timeout") configs[0].collective_timeout_s = 0;
    Cluster cluster(configs);
    many.devices[0]->hold();
    std::vector<std::future<Status>> done;
    for (std::uint32_t d = 0; d < 2; ++d) {
      done.push_back(cluster.submit(d, many.collective(d, many.tensor(d, count, 1), count)));
    }
    if (end == "abort") {
      while (many.devices[0]->batches() == 0) std::this_thread::yield();
      cluster.node(0).abort({ErrorCode::kWorkerLost, "a worker of another group died"});
    }
    many.devices[0]->release();
    for (auto& future : done) {
      const Status status = outcome(future);
      EXPECT_EQ(status.code, end == "abort" ? ErrorCode::kWorkerLost : ErrorCode::kTimeout) << status.text();
    }
  }
}

TEST(Devices, ADeadProcessIsAnErrorForTheOneThatWaits) {
  constexpr std::size_t count = 20'000;
  std::vector<GroupConfig> configs = configs_for({1, 1});
  const pid_t child = fork();
  if (child == 0) {
    // The child joins, and dies without a sum.
    std::unique_ptr<Endpoint> endpoint = join(configs[1]);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    raise(SIGKILL);
  }
  Many many(1);
  std::vector<GroupConfig> mine = {configs[0]};
  Cluster cluster(mine);
  std::future<Status> done = cluster.submit(0, many.collective(0, many.tensor(0, count, 1), count));
  const Status status = outcome(done);
  EXPECT_EQ(status.code, ErrorCode::kWorkerLost) << status.text();
  waitpid(child, nullptr, 0);
}

// One chunk. Worker 0's device has the slot, and worker 1 waits for its turn.
constexpr std::size_t kOneChunk = 100;
constexpr std::uint64_t kFirstWithData = 2;  // the batch before it finds exponents

TEST(Devices, AWorkerWhoseDeviceKeepsTheSlotIsNamed) {
  Many many(2);
  many.devices[0]->hold(kFirstWithData);
  std::vector<GroupConfig> configs = configs_for({1, 1});
  configs[1].collective_timeout_s = 1;
  Cluster cluster(configs);
  std::byte* const tensor = many.tensor(0, kOneChunk, 1);
  std::future<Status> first = cluster.submit(0, many.collective(0, tensor, kOneChunk));
  std::future<Status> second = cluster.submit(1, many.collective(1, many.tensor(1, kOneChunk, 1), kOneChunk));
  const Status status = outcome(second);
  EXPECT_EQ(status.code, ErrorCode::kTimeout) << status.text();
  EXPECT_NE(status.message.find("missing workers: 0"), std::string::npos) << status.text();
  many.devices[0]->release();
  // If worker 1 came before the device, it has contributed, and the late sum is whole.
  if (outcome(first).ok()) {
    EXPECT_EQ(many.first(0, tensor), 2);
  }
}

TEST(Devices, AProcessThatDiesWhileItsDeviceHasTheSlotIsAnErrorForTheOther) {
  const std::vector<GroupConfig> configs = configs_for({1, 1});
  const pid_t child = fork();
  if (child == 0) {
    Many many(1);
    many.devices[0]->hold(kFirstWithData);
    Cluster cluster({configs[0]});
    [[maybe_unused]] const std::future<Status> done =
        cluster.submit(0, many.collective(0, many.tensor(0, kOneChunk, 1), kOneChunk));
    while (many.devices[0]->batches() < kFirstWithData) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));  // so that the other is refused its turn
    raise(SIGKILL);
  }
  Many many(1);
  Cluster cluster({configs[1]});
  std::future<Status> done = cluster.submit(1, many.collective(0, many.tensor(0, kOneChunk, 1), kOneChunk));
  const Status status = outcome(done);
  EXPECT_EQ(status.code, ErrorCode::kWorkerLost) << status.text();
  waitpid(child, nullptr, 0);
}

TEST(Devices, HostAndDeviceTensorsOfOneProcessDoNotMix) {
  Many many(1);
  std::vector<float> host(100, 1);
  Cluster cluster(configs_for({2}));
  std::future<Status> one = cluster.submit(0, many.collective(0, many.tensor(0, 100, 1), 100));
  std::future<Status> other = cluster.submit(1, {{{ElementType::kFloat32, 100, host.data(), host.data()}}});
  EXPECT_EQ(outcome(one).code, ErrorCode::kMismatch);
  EXPECT_EQ(outcome(other).code, ErrorCode::kMismatch);
}

}  // namespace
}  // namespace jaxina
