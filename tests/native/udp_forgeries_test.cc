// A forger beside a job with servers in its workers and a switch that combines updates, all on real sockets. The forger
// reads all that the workers send to the switch. From a socket of its own it sends results, notices, sums of groups and
// updates for the passes that are under way. It has the job's secret, except in updates: whoever has the secret is a
// worker, wherever it is (SECURITY.md). No sum may change, and every packet must be counted as what it is.
//
//   JAXINA_FORGED_PACKETS=1000000 udp_forgeries_test    # 20,000 without it
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <random>
#include <utility>

#include "rdma_engine/net/udp_socket.h"
#include "tests/native/combined_jobs.h"
#include "tests/native/udp_relay.h"

namespace jaxina {
namespace {

using namespace testing;

constexpr std::uint32_t kWorkers = 3;

std::uint64_t forged_packets() {
  const char* given = std::getenv("JAXINA_FORGED_PACKETS");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : 20'000;
}

// What the forger has read: the newest updates, and where each worker is.
class Overheard {
 public:
  void hear(std::span<const std::uint8_t> packet, const Address& worker) {
    wire::Header header;
    ASSERT_EQ(wire::parse(packet, header), wire::ParseResult::kOk);
    const std::lock_guard lock(mutex_);
    newest_[heard_++ % newest_.size()] = header;
    workers_[header.worker] = worker;
  }
  bool everybody() const {
    const std::lock_guard lock(mutex_);
    return workers_.size() == kWorkers && heard_ >= newest_.size();
  }
  wire::Header any(std::mt19937_64& random) const {
    const std::lock_guard lock(mutex_);
    return newest_[random() % newest_.size()];
  }
  Address worker(std::uint32_t worker) const {
    const std::lock_guard lock(mutex_);
    return workers_.at(worker);
  }

 private:
  mutable std::mutex mutex_;
  std::array<wire::Header, 16> newest_{};
  std::uint64_t heard_ = 0;
  std::map<std::uint32_t, Address> workers_;
};

// How many packets of each kind have been forged, by how they must be counted.
struct Forged {
  Counters at_switch, at_servers;
  std::array<std::uint64_t, kWorkers> replies{};  // at each worker
  std::uint64_t all = 0;
};

class Forger {
 public:
  Forger(const JobSpec& job, const CombinedJobs& jobs, SoftwareSwitch& combiner, const Overheard& overheard)
      : job_(job), jobs_(jobs), combiner_(combiner), overheard_(overheard) {}

  void run(std::uint64_t packets) {
    constexpr int kBurst = 16;  // so few that sockets with small buffers take them beside the job's packets
    while (!overheard_.everybody()) std::this_thread::yield();
    while (forged_.all < packets) {
      for (int i = 0; i < kBurst; ++i) forge();
      ASSERT_NO_FATAL_FAILURE(wait_until_counted());
    }
  }
  const Forged& forged() const { return forged_; }

 private:
  // Sends one packet about a pass that is probably under way, with other words.
  void forge() {
    ++forged_.all;
    wire::Header header = overheard_.any(random_);
    if (random_() % 4 == 0) header.epoch += static_cast<std::uint32_t>(random_() % 3) - 1;
    const Address server = jobs_.server_of(header.slot);
    const Address combiner = at(combiner_.ports().front());
    header.code = 0;
    switch (random_() % 8) {
      case 0: return ++forged_.at_servers[Counter::kForeign], send(server, sum(header));
      case 1: return ++forged_.at_switch[Counter::kForeign], send(combiner, sum(header));
      case 2: return ++forged_.at_switch[Counter::kForeign], send(combiner, reply(header, wire::Kind::kResult));
      case 3: return ++forged_.at_servers[Counter::kNotAnUpdate], send(server, reply(header, wire::Kind::kResult));
      case 4: {
        header.secret ^= std::uint64_t{1} << random_() % 64;
        const bool at_server = random_() % 2 == 0;
        ++(at_server ? forged_.at_servers : forged_.at_switch)[Counter::kWrongSecret];
        return send(at_server ? server : combiner, random_() % 2 == 0 ? sum(header) : header);
      }
      default: {
        const auto worker = static_cast<std::uint32_t>(random_() % kWorkers);
        ++forged_.replies[worker];
        // Most are results. A notice would end the job at once.
        const auto kind = random_() % 4 > 0 ? wire::Kind::kResult : static_cast<wire::Kind>(3 + random_() % 3);
        return send(overheard_.worker(worker), reply(header, kind));
      }
    }
  }
  static wire::Header sum(wire::Header header) {
    header.kind = wire::Kind::kCombined;
    header.worker = wire::kFirstGroup;
    return header;
  }
  static wire::Header reply(wire::Header header, wire::Kind kind) {
    header.kind = kind;
    header.worker = wire::kAllWorkers;
    if (kind == wire::Kind::kRefused) header.code = static_cast<std::uint8_t>(wire::Refusal::kAhead);
    if (kind == wire::Kind::kAbort) header.code = static_cast<std::uint8_t>(ErrorCode::kWorkerLost);
    return header;
  }
  void send(const Address& to, const wire::Header& header) {
    const std::size_t size = wire::packet_size(header.words, header.exponents);
    for (std::size_t i = wire::kHeaderSize; i < size; ++i) packet_[i] = static_cast<std::uint8_t>(random_());
    wire::seal(header, packet_.data(), size);
    ASSERT_EQ(sendto(socket_.fd(), packet_.data(), size, 0, net::as_sockaddr(to), to.size), static_cast<ssize_t>(size));
  }
  // Otherwise most packets would overflow sockets, and nobody could count them.
  void wait_until_counted() {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    const std::uint64_t sent = of(forged_.at_switch) + of(forged_.at_servers);
    const std::uint64_t target = settled_ + sent - std::exchange(sent_, sent);
    while ((settled_ = settled()) < target) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "forged packets are not counted";
    }
  }
  // The packets that the switch and the servers have counted as forged, or that their sockets have lost.
  std::uint64_t settled() const {
    const SwitchCounters at_switch = combiner_.statistics();
    Counters at_servers = jobs_.at_servers(&SwitchCounters::without_job);
    at_servers += jobs_.at_servers();
    return of(at_switch.jobs.at(job_.job)) + of(at_servers) + at_switch.sockets[Counter::kSocketOverflows] +
           jobs_.at_servers(&SwitchCounters::sockets)[Counter::kSocketOverflows];
  }
  static std::uint64_t of(const Counters& counters) {
    return counters[Counter::kForeign] + counters[Counter::kWrongSecret] + counters[Counter::kNotAnUpdate];
  }

  JobSpec job_;
  const CombinedJobs& jobs_;
  SoftwareSwitch& combiner_;
  const Overheard& overheard_;
  net::UdpSocket socket_{at(0), {.offload = false}};
  std::mt19937_64 random_{7};
  Forged forged_;
  std::uint64_t sent_ = 0, settled_ = 0;  // to the switch and the servers
  alignas(4) std::array<std::uint8_t, wire::kMaxPacketSize> packet_{};
};

// All forged packets were counted, except those that sockets without room for them have lost.
void expect_counted(std::uint64_t forged, std::uint64_t counted, std::uint64_t lost) {
  EXPECT_LE(counted, forged);
  EXPECT_GE(counted + lost, forged);
  EXPECT_GT(counted, 0u);
}

TEST(UdpForgeries, ForgedResultsAndSumsFromElsewhereChangeNothing) {
  const JobSpec job = job_of(kWorkers, 7, {.slots = 8, .blocks_per_chunk = 1});
  SoftwareSwitch combiner({.entries = 4});
  const CombinedJobs jobs(job, combiner.ports());
  combiner.combine_job(jobs.at_switch());
  Overheard overheard;
  UdpRelay relay(combiner.ports().front(), {}, 1,
                 [&](std::span<const std::uint8_t> packet, const Address& from) { overheard.hear(packet, from); });
  std::vector<std::unique_ptr<Endpoint>> endpoints;
  for (UdpMember& member : jobs.workers()) {
    member.udp.switches = ports_of("127.0.0.1", {relay.port()});
    endpoints.push_back(member.join());
  }
  Forger forger(job, jobs, combiner, overheard);
  std::atomic<bool> over = false;
  std::jthread forging([&] {
    forger.run(forged_packets());
    over = true;
  });

  // The job sums until the forger is done, and once more.
  std::uint64_t sums = 0;
  for (bool last = false; !last && !HasFailure(); ++sums) {
    last = over;
    FloatSum sum(kWorkers, 20'000, sums);
    std::vector<std::jthread> workers;
    for (std::uint32_t w = 0; w < kWorkers; ++w) {
      workers.emplace_back([&, w] {
        sum.submit(w, *endpoints[w]);
        const Status status = run_to_end(*endpoints[w]);
        EXPECT_TRUE(status.ok()) << status.text();
      });
    }
    workers.clear();
    sum.expect_exact();
  }
  forging.join();
  EXPECT_GE(sums, 2u);

  const Forged& forged = forger.forged();
  const SwitchCounters of_switch = combiner.statistics();
  const Counters at_switch = of_switch.jobs.at(job.job), at_servers = jobs.at_servers();
  const auto overflows_at_servers = jobs.at_servers(&SwitchCounters::sockets)[Counter::kSocketOverflows];
  for (const Counter counter : {Counter::kForeign, Counter::kWrongSecret}) {
    expect_counted(forged.at_switch[counter], at_switch[counter], of_switch.sockets[Counter::kSocketOverflows]);
    expect_counted(forged.at_servers[counter], at_servers[counter], overflows_at_servers);
  }
  expect_counted(forged.at_servers[Counter::kNotAnUpdate],
                 jobs.at_servers(&SwitchCounters::without_job)[Counter::kNotAnUpdate], overflows_at_servers);
  EXPECT_EQ(at_servers[Counter::kUpdates], kWorkers * at_servers[Counter::kResults]);
  EXPECT_GT(at_switch[Counter::kCombined], 0u);
  std::uint64_t replies = 0;
  for (std::uint32_t w = 0; w < kWorkers; ++w) {
    const Counters counters = endpoints[w]->statistics();
    EXPECT_GE(counters[Counter::kPacketsRejected] + counters[Counter::kSocketOverflows], forged.replies[w]);
    EXPECT_GT(counters[Counter::kPacketsRejected], 0u);
    replies += forged.replies[w];
  }
  std::printf("%lu forged packets, %lu of them replies to workers; %lu sums exact\n", forged.all, replies, sums);
}

}  // namespace
}  // namespace jaxina
