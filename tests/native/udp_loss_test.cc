// Tests the udp transport under faults. Packets that are lost, duplicated, late or out of order must not change a bit
// of any sum.
#include "tests/native/udp_fixture.h"
#include "tests/native/udp_relay.h"

namespace jaxina {
namespace {

using namespace testing;

TEST(UdpLoss, LossAtBothEndsIsRepairedAndCounted) {
  constexpr std::uint32_t n = 3;
  SoftwareSwitch software_switch({.ports = {}, .threads = 2, .loss = 0.05, .loss_seed = 11});
  const JobSpec job = job_of(n);
  software_switch.add_job(job);
  std::vector<UdpMember> configs = configs_for(job, software_switch.ports());
  for (UdpMember& config : configs) config.udp.loss.share = 0.05;
  FloatSum sum(n, 500'000, 21);
  with_workers(configs, [&](std::uint32_t w, Endpoint& endpoint) {
    sum.submit(w, endpoint);
    const Status status = run_to_end(endpoint);
    ASSERT_TRUE(status.ok()) << status.text();
    const Counters counters = endpoint.statistics();
    EXPECT_GT(counters[Counter::kPacketsDropped], 0u);
    EXPECT_GT(counters[Counter::kRetransmissions], 0u);
    // About 500 packets come, and each is dropped with a probability of 0.05. A share above 0.2 cannot be chance.
    const std::uint64_t dropped = counters[Counter::kPacketsDropped];
    EXPECT_LT(dropped, (counters[Counter::kPacketsReceived] + dropped) / 5);
  });
  sum.expect_exact();
  const SwitchCounters counters = software_switch.statistics();
  EXPECT_GT(counters.sockets[Counter::kPacketsDropped], 0u);
  EXPECT_EQ(counters.jobs.at(job.job)[Counter::kResults], (500'000 + 1023) / 1024 + job.shape.slots());
}

TEST(UdpLoss, LossDuplicationAndReorderingInTheNetwork) {
  for (const std::uint64_t seed : {1u, 2u, 3u, 4u}) {
    const std::uint32_t n = 1 + seed % 4;
    SCOPED_TRACE("seed " + std::to_string(seed) + ", workers " + std::to_string(n));
    SoftwareSwitch software_switch({.ports = {}, .threads = 2});
    const JobSpec job = job_of(n, 7, {.slots = 16});
    software_switch.add_job(job);
    const Faults faults{.lose = 0.05, .duplicate = 0.1, .delay = 0.3};
    std::vector<std::unique_ptr<UdpRelay>> relays;
    std::vector<std::uint16_t> ports;
    for (const std::uint16_t port : software_switch.ports()) {
      relays.push_back(std::make_unique<UdpRelay>(port, faults, 100 * seed + relays.size()));
      ports.push_back(relays.back()->port());
    }
    std::vector<FloatSum> sums;
    for (const std::size_t count : {150'000u, 1u, 3000u, 80'000u}) sums.emplace_back(n, count, 40 * seed + count);
    with_workers(configs_for(job, ports), [&](std::uint32_t w, Endpoint& endpoint) {
      for (FloatSum& sum : sums) sum.submit(w, endpoint);
      const Status status = run_to_end(endpoint);
      EXPECT_TRUE(status.ok()) << status.text();
    });
    for (const FloatSum& sum : sums) sum.expect_exact();
    for (const auto& relay : relays) {
      relay->stop();
      EXPECT_GT(relay->counts().lost, 0u);
      EXPECT_GT(relay->counts().duplicated, 0u);
      EXPECT_GT(relay->counts().delayed, 0u);
    }
    const SwitchCounters counters = software_switch.statistics();
    EXPECT_GT(counters.jobs.at(job.job)[Counter::kDuplicates], 0u);
  }
}

}  // namespace
}  // namespace jaxina
