// Tests the udp transport with a software switch over loopback: sums, several jobs, several threads.
#include "rdma_engine/net/socket_address.h"
#include "rdma_engine/net/udp_socket.h"
#include "tests/native/udp_fixture.h"

namespace jaxina {
namespace {

using namespace testing;

TEST(UdpEndpoint, SumsAreBitExactForEverySize) {
  for (const std::uint32_t n : {1u, 2u, 3u, 4u}) {
    for (const std::uint32_t threads : {1u, 3u}) {
      SoftwareSwitch software_switch({.ports = {}, .threads = threads});
      const JobSpec job = job_of(n);
      software_switch.add_job(job);
      std::vector<FloatSum> sums;
      for (const std::size_t count : {1u, 2u, 255u, 257u, 1024u, 5000u, 32u * 1024u, 100'000u}) {
        sums.emplace_back(n, count, 31 * n + 7 * count);
      }
      with_workers(configs_for(job, software_switch.ports()), [&](std::uint32_t w, Endpoint& endpoint) {
        for (FloatSum& sum : sums) {
          sum.submit(w, endpoint);
          const Status status = run_to_end(endpoint);
          ASSERT_TRUE(status.ok()) << status.text();
        }
        const Counters counters = endpoint.statistics();
        EXPECT_EQ(counters[Counter::kPacketsDropped], 0u);
        EXPECT_GT(counters[Counter::kBytesSent], 28 * counters[Counter::kPacketsSent]);
      });
      for (const FloatSum& sum : sums) sum.expect_exact();
    }
  }
}

// A packet processor asks for whole chunks: every pass has no words, or those of a whole chunk.
TEST(UdpEndpoint, WholeChunksSumTheSame) {
  constexpr std::uint32_t n = 3;
  SoftwareSwitch software_switch({.ports = {}});
  const JobSpec job = job_of(n, 7, {.whole_chunks = true});
  software_switch.add_job(job);
  std::vector<FloatSum> sums;
  for (const std::size_t count : {1u, 256u, 257u, 1023u, 1024u, 5000u}) sums.emplace_back(n, count, count);
  with_workers(configs_for(job, software_switch.ports()), [&](std::uint32_t w, Endpoint& endpoint) {
    for (FloatSum& sum : sums) {
      sum.submit(w, endpoint);
      const Status status = run_to_end(endpoint);
      ASSERT_TRUE(status.ok()) << status.text();
    }
  });
  for (const FloatSum& sum : sums) sum.expect_exact();
  // Each sum has one chunk of 1024 words, except the last, which has five. There are as many passes with exponents
  // only.
  const Counters counters = software_switch.statistics().jobs.at(job.job);
  EXPECT_EQ(counters[Counter::kResults], 2u * 10);
  EXPECT_GE(counters[Counter::kBytesReceived], n * 10u * (4 * 1024 + 2 * wire::kHeaderSize));
}

TEST(UdpEndpoint, LargeSums) {
  for (const std::uint32_t n : {2u, 4u}) {
    SoftwareSwitch software_switch({.ports = {}, .threads = 2});
    const JobSpec job = job_of(n, 7, {.slots = 128, .blocks_per_chunk = 16});
    software_switch.add_job(job);
    FloatSum sum(n, 3'000'000, n);
    with_workers(configs_for(job, software_switch.ports()), [&](std::uint32_t w, Endpoint& endpoint) {
      sum.submit(w, endpoint);
      const Status status = run_to_end(endpoint);
      EXPECT_TRUE(status.ok()) << status.text();
    });
    sum.expect_exact();
  }
}

TEST(UdpEndpoint, IntegersAreExactAndMixWithFloats) {
  constexpr std::uint32_t n = 3;
  constexpr std::size_t count = 70'001;
  SoftwareSwitch software_switch({.ports = {}, .threads = 2});
  const JobSpec job = job_of(n);
  software_switch.add_job(job);
  FloatSum before(n, 999, 3), after(n, 12'345, 4);
  std::vector<std::vector<std::uint32_t>> integers(n), outputs(n, std::vector<std::uint32_t>(count));
  std::vector<std::uint32_t> expected(count);
  for (std::uint32_t w = 0; w < n; ++w) {
    for (std::size_t i = 0; i < count; ++i)
      integers[w].push_back(static_cast<std::uint32_t>((i + 1) * 2654435761u * (w + 1)));
    for (std::size_t i = 0; i < count; ++i) expected[i] += integers[w][i];
  }
  with_workers(configs_for(job, software_switch.ports()), [&](std::uint32_t w, Endpoint& endpoint) {
    before.submit(w, endpoint);
    endpoint.worker().submit({{{ElementType::kInt32, count, integers[w].data(), outputs[w].data()}}});
    after.submit(w, endpoint);
    EXPECT_TRUE(run_to_end(endpoint).ok());
  });
  before.expect_exact();
  after.expect_exact();
  for (std::uint32_t w = 0; w < n; ++w) EXPECT_EQ(outputs[w], expected) << "worker " << w;
}

TEST(UdpEndpoint, TwoJobsAtOnceDoNotMix) {
  SoftwareSwitch software_switch({.ports = {}, .threads = 2});
  const std::vector<JobSpec> jobs{job_of(2, 1), job_of(3, 2)};
  for (const JobSpec& job : jobs) software_switch.add_job(job);
  std::vector<FloatSum> sums{{2, 400'000, 5}, {3, 300'000, 6}};
  std::vector<std::thread> threads;
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    threads.emplace_back([&, j] {
      with_workers(configs_for(jobs[j], software_switch.ports()), [&](std::uint32_t w, Endpoint& endpoint) {
        sums[j].submit(w, endpoint);
        EXPECT_TRUE(run_to_end(endpoint).ok());
      });
    });
  }
  for (std::thread& t : threads) t.join();
  for (const FloatSum& sum : sums) sum.expect_exact();
  const SwitchCounters counters = software_switch.statistics();
  // Every pass of both jobs was completed exactly once: one look-ahead pass for each slot used, and one pass for each
  // chunk.
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    const std::size_t chunks = (j == 0 ? 400'000 : 300'000) / 1024 + 1;
    const JobShape& shape = jobs[j].shape;
    EXPECT_EQ(counters.jobs.at(jobs[j].job)[Counter::kResults], chunks + shape.slots());
    EXPECT_EQ(counters.jobs.at(jobs[j].job)[Counter::kUpdates], shape.workers() * (chunks + shape.slots()));
  }
}

TEST(UdpEndpoint, LaterSumsContinueTheJobsStream) {
  constexpr std::uint32_t n = 2;
  SoftwareSwitch software_switch({});
  const JobSpec job = job_of(n);
  software_switch.add_job(job);
  std::vector<FloatSum> sums;
  for (int i = 0; i < 300; ++i) sums.emplace_back(n, 1 + (i * 977) % 6000, 50 + i);
  with_workers(configs_for(job, software_switch.ports()), [&](std::uint32_t w, Endpoint& endpoint) {
    for (int i = 0; i < 100; ++i) sums[i].submit(w, endpoint);
    ASSERT_TRUE(run_to_end(endpoint).ok());
    for (int i = 100; i < 300; ++i) {
      sums[i].submit(w, endpoint);
      if (i % 7 == 0) {
        ASSERT_TRUE(run_to_end(endpoint).ok());
      }
    }
    ASSERT_TRUE(run_to_end(endpoint).ok());
  });
  for (const FloatSum& sum : sums) sum.expect_exact();
}

TEST(UdpEndpoint, WakeEndsAWait) {
  SoftwareSwitch software_switch({});
  const JobSpec job = job_of(2);  // worker 1 never comes
  software_switch.add_job(job);
  const std::unique_ptr<Endpoint> endpoint = config_for(job, 0, software_switch.ports()).join();
  FloatSum sum(2, 10'000, 1);
  sum.submit(0, *endpoint);
  for (int i = 0; i < 5; ++i) {
    std::thread waker([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(5 * i));
      endpoint->wake();
    });
    const auto start = std::chrono::steady_clock::now();
    EXPECT_TRUE(endpoint->progress(20'000'000'000).ok());
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
    waker.join();
  }
  // A wait without a wake ends by itself. By then the switch has told which workers are missing.
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(endpoint->progress(300'000'000).ok());
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(300));
  EXPECT_EQ(endpoint->missing(), std::vector<std::uint32_t>{1});
  EXPECT_EQ(software_switch.missing(job.job), std::vector<std::uint32_t>{1});
}

TEST(UdpEndpoint, SumsOverIpv6) {
  try {
    net::UdpSocket(net::resolve("::1", 0, ErrorCode::kSystem), {});
  } catch (const Error& error) {
    GTEST_SKIP() << "this host has no IPv6: " << error.what();
  }
  SoftwareSwitch software_switch({.address = "::1", .ports = {}});
  const JobSpec job = job_of(2);
  software_switch.add_job(job);
  std::vector<UdpMember> configs = configs_for(job, software_switch.ports());
  for (UdpMember& config : configs) config.udp.addresses = ports_of("::1", software_switch.ports());
  FloatSum sum(2, 50'000, 9);
  with_workers(configs, [&](std::uint32_t w, Endpoint& endpoint) {
    sum.submit(w, endpoint);
    EXPECT_TRUE(run_to_end(endpoint).ok());
  });
  sum.expect_exact();
}

}  // namespace
}  // namespace jaxina
