// Tests encrypted packets on real sockets: what somebody reads who stands between the workers and the switch, and what
// flipped bits and replayed packets do.
#include <sys/socket.h>

#include <algorithm>
#include <mutex>

#include "rdma_engine/encryption/envelope.h"
#include "tests/native/combined_jobs.h"
#include "tests/native/hostile_packets.h"
#include "tests/native/udp_relay.h"

namespace jaxina {
namespace {

using namespace testing;

JobSpec encrypted_job_of(std::uint32_t workers, const Size& size = {}) {
  JobSpec job = job_of(workers, 7, size);
  job.key = JobKey{.bytes = {1, 2, 3}};
  return job;
}

std::vector<UdpMember> encrypted_configs_for(const JobSpec& job, const std::vector<std::uint16_t>& ports) {
  std::vector<UdpMember> configs = configs_for(job, ports);
  for (UdpMember& config : configs) config.udp.key = job.key;
  return configs;
}

// All packets of the workers, as somebody on the way reads them.
class Capture {
 public:
  UdpRelay::Eavesdropper eavesdropper() {
    return [this](std::span<const std::uint8_t> packet, const Address&) {
      const std::lock_guard lock(mutex_);
      packets_.emplace_back(packet.begin(), packet.end());
    };
  }
  std::vector<std::vector<std::uint8_t>> packets() const {
    const std::lock_guard lock(mutex_);
    return packets_;
  }
  // How many packets have these bytes somewhere.
  std::size_t with(std::span<const std::uint8_t> bytes) const {
    const auto all = packets();
    return static_cast<std::size_t>(std::count_if(all.begin(), all.end(), [&](const auto& packet) {
      return std::search(packet.begin(), packet.end(), bytes.begin(), bytes.end()) != packet.end();
    }));
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::vector<std::uint8_t>> packets_;
};

// Two workers sum integers whose bytes are easy to find. Returns what was captured.
void sum_integers(const JobSpec& job, Capture& capture) {
  SoftwareSwitch software_switch({});
  software_switch.add_job(job);
  UdpRelay relay(software_switch.ports().front(), {}, 1, capture.eavesdropper());
  std::vector<std::int32_t> in(5000, 0x4a5b6c7d), out[2];
  for (auto& o : out) o.resize(in.size());
  with_workers(encrypted_configs_for(job, {relay.port()}), [&](std::uint32_t w, Endpoint& endpoint) {
    endpoint.worker().submit({{{ElementType::kInt32, in.size(), in.data(), out[w].data()}}});
    const Status status = run_to_end(endpoint);
    ASSERT_TRUE(status.ok()) << status.text();
  });
  for (const auto& o : out) {
    EXPECT_TRUE(
        std::all_of(o.begin(), o.end(), [](std::int32_t x) { return x == static_cast<std::int32_t>(0x94b6d8fau); }));
  }
}

TEST(UdpEncryption, ACapturedPacketShowsNoTensor) {
  constexpr std::uint8_t kNumber[] = {0x4a, 0x5b, 0x6c, 0x7d};
  Capture clear, encrypted;
  sum_integers(job_of(2), clear);
  EXPECT_GE(clear.with(kNumber), 10u);
  const JobSpec job = encrypted_job_of(2);
  sum_integers(job, encrypted);
  EXPECT_GE(encrypted.packets().size(), 10u);
  EXPECT_EQ(encrypted.with(kNumber), 0u);
  std::uint8_t secret[8];
  for (int i = 0; i < 8; ++i) secret[i] = static_cast<std::uint8_t>(job.secret >> (56 - 8 * i));
  EXPECT_GE(clear.with(secret), 10u);
  EXPECT_EQ(encrypted.with(secret), 0u);
}

TEST(UdpEncryption, SumsAreExactWithSeveralThreads) {
  SoftwareSwitch software_switch({.threads = 3});
  const JobSpec job = encrypted_job_of(4);
  software_switch.add_job(job);
  sum_exactly(job, encrypted_configs_for(job, software_switch.ports()), 3);
  EXPECT_EQ(software_switch.statistics().without_job[Counter::kNotAuthentic], 0u);
}

TEST(UdpEncryption, FlippedBitsAndEveryFaultOfANetworkChangeNothing) {
  SoftwareSwitch software_switch({});
  const JobSpec job = encrypted_job_of(3, {.slots = 16});
  software_switch.add_job(job);
  UdpRelay relay(software_switch.ports().front(), {.lose = 0.02, .duplicate = 0.1, .delay = 0.2, .flip = 0.1}, 5);
  sum_exactly(job, encrypted_configs_for(job, {relay.port()}));
  relay.stop();
  EXPECT_GT(relay.counts().flipped, 0u);
  const SwitchCounters counters = software_switch.statistics();
  EXPECT_GT(counters.without_job[Counter::kNotAuthentic], 0u);
  const Counters& of_job = counters.jobs.at(job.job);
  EXPECT_EQ(of_job[Counter::kUpdates], 3 * of_job[Counter::kResults]);
  // No flipped packet has come as far as the checks of a packet in the clear.
  EXPECT_EQ(counters.without_job[Counter::kCorrupt] + of_job[Counter::kWrongSecret], 0u);
}

// Somebody sends all that the workers have sent once more, from elsewhere, between two sums.
TEST(UdpEncryption, ReplayedPacketsCountOnce) {
  SoftwareSwitch software_switch({});
  const JobSpec job = encrypted_job_of(2, {.slots = 8});
  software_switch.add_job(job);
  Capture capture;
  UdpRelay relay(software_switch.ports().front(), {}, 1, capture.eavesdropper());
  std::vector<std::unique_ptr<Endpoint>> endpoints;
  for (const UdpMember& config : encrypted_configs_for(job, {relay.port()})) endpoints.push_back(config.join());
  const auto sum_once = [&](std::uint64_t seed) {
    FloatSum sum(2, 50'000, seed);
    std::vector<std::jthread> workers;
    for (std::uint32_t w = 0; w < 2; ++w) {
      workers.emplace_back([&, w] {
        sum.submit(w, *endpoints[w]);
        const Status status = run_to_end(*endpoints[w]);
        EXPECT_TRUE(status.ok()) << status.text();
      });
    }
    workers.clear();
    sum.expect_exact();
  };
  const auto counted = [&] { return software_switch.statistics().jobs.at(job.job); };
  // Each packet that arrives is counted in one of these.
  const auto taken = [](const Counters& counters) {
    return counters[Counter::kUpdates] + counters[Counter::kDuplicates] + counters[Counter::kStale];
  };

  sum_once(1);
  const auto packets = capture.packets();
  const Counters before = counted();
  Stranger replayer(software_switch.ports().front());
  for (const auto& packet : packets) {
    const std::uint64_t so_far = taken(counted());
    replayer.send(packet);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (taken(counted()) == so_far) ASSERT_LT(std::chrono::steady_clock::now(), deadline);
  }
  const Counters after = counted();
  EXPECT_EQ(after[Counter::kUpdates], before[Counter::kUpdates]);
  EXPECT_EQ(after[Counter::kResults], before[Counter::kResults]);
  EXPECT_EQ(taken(after), taken(before) + packets.size());
  EXPECT_EQ(software_switch.statistics().without_job[Counter::kNotAuthentic], 0u);  // they are authentic, but old
  sum_once(2);
  EXPECT_EQ(counted()[Counter::kUpdates], 2 * counted()[Counter::kResults]);
}

TEST(UdpEncryption, AnEncryptedJobTakesNoPacketInTheClearAndTheOtherWayRound) {
  SoftwareSwitch software_switch({});
  const JobSpec job = encrypted_job_of(1);
  JobSpec clear = job_of(1, 8);
  software_switch.add_job(job);
  software_switch.add_job(clear);
  Stranger stranger(software_switch.ports().front());
  stranger.send(update(job, {.secret = job.secret}));
  encryption::EncryptedEnd worker(*job.key, clear.job, encryption::Role::kWorker, 0, 1);
  const std::vector<std::uint8_t> packet = update(clear, {.secret = clear.secret});
  std::vector<std::uint8_t> encrypted(packet.size() + encryption::kOverhead);
  worker.encrypt(packet, encrypted.data());
  stranger.send(encrypted);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  const auto rejected = [&](Counter counter) { return software_switch.statistics().without_job[counter]; };
  while (rejected(Counter::kNotEncrypted) + rejected(Counter::kUnknownJob) < 2) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
  }
  EXPECT_EQ(rejected(Counter::kNotEncrypted), 1u);
  EXPECT_EQ(rejected(Counter::kUnknownJob), 1u);
  for (const auto& [id, counters] : software_switch.statistics().jobs) EXPECT_EQ(counters[Counter::kUpdates], 0u);
}

TEST(UdpEncryption, AnAbortReachesTheWorkers) {
  SoftwareSwitch software_switch({});
  const JobSpec job = encrypted_job_of(2);
  software_switch.add_job(job);
  const std::unique_ptr<Endpoint> endpoint = encrypted_configs_for(job, software_switch.ports())[0].join();
  float value = 1;
  endpoint->worker().submit({{{ElementType::kFloat32, 1, &value, &value}}});
  EXPECT_TRUE(endpoint->progress(50'000'000).ok());
  software_switch.abort_job(job.job, {ErrorCode::kWorkerLost, "worker 1 is gone"});
  const Status status = run_to_end(*endpoint);
  EXPECT_EQ(status.code, ErrorCode::kWorkerLost) << status.text();
}

TEST(UdpEncryption, TheWorkersOwnServersEncryptToo) {
  const JobSpec job = encrypted_job_of(3);
  std::vector<std::unique_ptr<SoftwareSwitch>> servers;
  std::vector<std::uint16_t> ports;
  for (std::uint32_t w = 0; w < 3; ++w) {
    servers.push_back(std::make_unique<SoftwareSwitch>(SwitchConfig{}));
    servers.back()->add_job(job, {.index = w, .of = 3});
    ports.push_back(servers.back()->ports().front());
  }
  std::vector<UdpMember> configs = encrypted_configs_for(job, ports);
  for (UdpMember& config : configs) config.udp.at_workers = true;
  sum_exactly(job, configs);
}

TEST(UdpEncryption, AWorkerWithSwitchesOnTheWayIsRefused) {
  const JobSpec job = encrypted_job_of(1);
  UdpMember config = encrypted_configs_for(job, {1})[0];
  config.udp.switches = ports_of("127.0.0.1", {2});
  try {
    config.join();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.status().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(error.status().message.find("switches that combine"), std::string::npos);
  }
}

// Exactly the largest packet of a job in the clear is no datagram with an envelope.
TEST(UdpEncryption, APacketThatIsTooLargeWithItsEnvelopeIsRefused) {
  JobSpec job = encrypted_job_of(1);
  job.shape = JobShape({.devices = 1, .workers = 1, .slots = 1, .block_size = 16'364, .blocks_per_chunk = 1});
  UdpMember config = encrypted_configs_for(job, {1})[0];
  EXPECT_THROW(config.join(), Error);
  config.udp.key.reset();
  EXPECT_NO_THROW(config.join());
}

}  // namespace
}  // namespace jaxina
