// Tests sums without a switch: every worker has a server of its own, and slot i belongs to server i mod P.
#include <algorithm>
#include <atomic>

#include "rdma_engine/net/socket_address.h"
#include "rdma_engine/net/udp_socket.h"
#include "tests/native/udp_fixture.h"

namespace jaxina {
namespace {

using namespace testing;

// The servers of a job's workers.
class Servers {
 public:
  explicit Servers(const JobSpec& job, std::uint32_t threads = 1, double loss = 0) {
    const std::uint32_t n = job.shape.workers();
    for (std::uint32_t w = 0; w < n; ++w) {
      servers_.push_back(std::make_unique<SoftwareSwitch>(
          SwitchConfig{.ports = {}, .threads = threads, .loss = loss, .loss_seed = w}));
      servers_.back()->add_job(job, {.index = w, .of = n});
    }
  }

  SoftwareSwitch& of(std::uint32_t worker) { return *servers_[worker]; }

  // The workers' configurations. The addresses go by thread, and by server for each thread.
  std::vector<UdpMember> configs(const JobSpec& job) const {
    std::vector<UdpMember> configs = configs_for(job, {});
    for (UdpMember& config : configs) {
      config.udp.at_workers = true;
      for (std::size_t thread = 0; thread < servers_.front()->ports().size(); ++thread) {
        for (const auto& server : servers_) config.udp.addresses.push_back({"127.0.0.1", server->ports()[thread]});
      }
    }
    return configs;
  }

 private:
  std::vector<std::unique_ptr<SoftwareSwitch>> servers_;
};

TEST(UdpServers, SumsAreBitExactAndEachServerHasItsShare) {
  for (const std::uint32_t n : {2u, 3u}) {
    const JobSpec job = job_of(n);
    Servers servers(job);
    sum_exactly(job, servers.configs(job));
    std::vector<std::uint64_t> results;
    for (std::uint32_t w = 0; w < n; ++w) {
      const Counters counters = servers.of(w).statistics().jobs.at(job.job);
      EXPECT_EQ(counters[Counter::kBadSlot], 0u);
      results.push_back(counters[Counter::kResults]);
    }
    const auto [least, most] = std::minmax_element(results.begin(), results.end());
    EXPECT_GT(*least, 0u);
    EXPECT_LE(*most, *least + *least / 4) << "the work is spread evenly";
  }
}

TEST(UdpServers, ServersMayHaveSeveralThreads) {
  const JobSpec job = job_of(3);
  Servers servers(job, 2);
  sum_exactly(job, servers.configs(job));
  for (std::uint32_t w = 0; w < 3; ++w) {
    EXPECT_EQ(servers.of(w).statistics().jobs.at(job.job)[Counter::kBadSlot], 0u);
  }
}

TEST(UdpServers, LossAtServersAndWorkersIsRepaired) {
  const JobSpec job = job_of(3);
  Servers servers(job, 1, 0.05);
  std::vector<UdpMember> configs = servers.configs(job);
  for (UdpMember& config : configs) config.udp.loss.share = 0.05;
  sum_exactly(job, configs);
  EXPECT_GT(servers.of(0).statistics().sockets[Counter::kPacketsDropped], 0u);
}

TEST(UdpServers, FewerSlotsThanServers) {
  const JobSpec job = job_of(4, 7, {.slots = 2});
  Servers servers(job);
  sum_exactly(job, servers.configs(job));
}

TEST(UdpServers, ThereIsNoSuchPart) {
  SoftwareSwitch server({});
  try {
    server.add_job(job_of(2), {.index = 2, .of = 2});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.status().code, ErrorCode::kInvalidArgument);
  }
}

TEST(UdpServers, AServerThatEndsIsALostWorkerWithItsNumber) {
  const JobSpec job = job_of(3);
  Servers servers(job);
  const std::vector<UdpMember> configs = servers.configs(job);
  std::vector<Status> statuses(2);
  std::atomic<int> summed = 0;
  std::thread killer([&] {
    while (summed < 2) std::this_thread::yield();
    servers.of(2).stop();
  });
  with_workers(configs, [&](std::uint32_t w, Endpoint& endpoint) {
    FloatSum sum(3, 50'000, 1);
    sum.submit(w, endpoint);
    ASSERT_TRUE(run_to_end(endpoint).ok());
    if (w == 2) return;
    ++summed;
    sum.submit(w, endpoint);
    statuses[w] = run_to_end(endpoint, std::chrono::seconds(5));
  });
  killer.join();
  for (const Status& status : statuses) {
    EXPECT_EQ(status.code, ErrorCode::kWorkerLost) << status.text();
    EXPECT_NE(status.message.find("worker 2"), std::string::npos) << status.text();
  }
}

// The other servers answer all the time, so only what the silent one is asked shows that it is gone.
TEST(UdpServers, ASilentServerIsALostWorkerWithItsNumber) {
  const JobSpec job = job_of(2);
  Servers servers(job);
  const net::UdpSocket silent(net::resolve("127.0.0.1", 0, ErrorCode::kSystem), {});
  std::vector<UdpMember> configs = servers.configs(job);
  for (UdpMember& config : configs) config.udp.addresses[1] = {"127.0.0.1", net::port_of(silent.local())};
  with_workers(configs, [&](std::uint32_t w, Endpoint& endpoint) {
    FloatSum sum(2, 50'000, 1);
    sum.submit(w, endpoint);
    // A job that ends sooner, by the collective's timeout, says for whom it waited.
    EXPECT_EQ(run_to_end(endpoint, std::chrono::seconds(2)).code, ErrorCode::kTimeout);
    EXPECT_EQ(endpoint.missing(), std::vector<std::uint32_t>{1});
    const Status status = run_to_end(endpoint, std::chrono::seconds(60));
    EXPECT_EQ(status.code, ErrorCode::kWorkerLost) << status.text();
    EXPECT_NE(status.message.find("worker 1 is out of reach"), std::string::npos) << status.text();
  });
}

TEST(UdpServers, AServerThatNoLongerHasTheJobIsAWorkerThatLeft) {
  const JobSpec job = job_of(2);
  Servers servers(job);
  const std::unique_ptr<Endpoint> endpoint = servers.configs(job)[0].join();
  servers.of(1).remove_job(job.job);
  FloatSum sum(2, 50'000, 1);
  sum.submit(0, *endpoint);
  const Status status = run_to_end(*endpoint, std::chrono::seconds(5));
  EXPECT_EQ(status.code, ErrorCode::kWorkerLost) << status.text();
  EXPECT_NE(status.message.find("worker 1 has left"), std::string::npos) << status.text();
}

TEST(UdpServers, AServerWithoutARouteIsALostWorkerWithItsNumber) {
  const JobSpec job = job_of(2);
  Servers servers(job);
  UdpMember config = servers.configs(job)[0];
  config.udp.addresses[1].host = "255.255.255.255";  // a socket without permission to broadcast has no route there
  try {
    config.join();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.status().code, ErrorCode::kWorkerLost) << error.what();
    EXPECT_NE(error.status().message.find("worker 1 cannot be reached"), std::string::npos) << error.what();
  }
}

TEST(UdpServers, Ipv4AndIpv6DoNotMixInOneJob) {
  const JobSpec job = job_of(2);
  UdpMember config = config_for(job, 0, {4791});
  config.udp.addresses.push_back({"::1", 4791});
  try {
    config.join();
    FAIL() << "no error";
  } catch (const Error& error) {
    // Without IPv6 on this host, there is no route to the second address.
    EXPECT_TRUE(error.status().code == ErrorCode::kInvalidArgument ||
                error.status().code == ErrorCode::kSwitchUnreachable)
        << error.what();
  }
}

}  // namespace
}  // namespace jaxina
