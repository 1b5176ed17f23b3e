// Sends a million hostile packets to the software switch while two other jobs sum. The packets are forged, replayed, or
// of the attacker's own job with wrong slots, epochs, lengths and fingerprints. All must be counted, and no sum may
// change.
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <random>

#include "rdma_engine/base/clock.h"
#include "rdma_engine/datagrams/session.h"
#include "rdma_engine/net/datagram_sender.h"
#include "tests/native/hostile_packets.h"
#include "tests/native/udp_fixture.h"

namespace jaxina {
namespace {

using namespace testing;
using Packet = std::vector<std::uint8_t>;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kHostilePackets = 100'000;
#else
constexpr std::uint64_t kHostilePackets = 1'000'000;
#endif

// Keeps the latest packets of a job, as an eavesdropper on the way sees them.
class Tap {
 public:
  void saw(const std::uint8_t* packet, std::size_t size) {
    const std::lock_guard lock(mutex_);
    if (seen_.size() < kKept) seen_.emplace_back();
    seen_[next_++ % kKept].assign(packet, packet + size);
  }
  Packet any(std::mt19937_64& random) const {
    const std::lock_guard lock(mutex_);
    return seen_.empty() ? Packet{} : seen_[random() % seen_.size()];
  }

 private:
  static constexpr std::size_t kKept = 512;
  mutable std::mutex mutex_;
  std::vector<Packet> seen_;
  std::size_t next_ = 0;
};

// A worker on a bare socket, on whose packets a Tap can eavesdrop.
class OpenWorker {
 public:
  OpenWorker(const JobSpec& job, std::uint32_t worker, std::uint16_t port, Tap& tap)
      : socket_(net::resolve("127.0.0.1", 0, ErrorCode::kSystem), {.offload = false}),
        switch_(net::resolve("127.0.0.1", port, ErrorCode::kSystem)),
        session_({.job = job.job,
                  .secret = job.secret,
                  .worker = static_cast<std::uint16_t>(worker),
                  .stream = {.shape = job.shape, .timer = {}}}),
        tap_(tap) {}

  Worker& worker() { return session_.worker(); }

  // Runs until everything submitted is summed. False if the time is up before.
  bool run_to_end(std::chrono::seconds bound) {
    const auto deadline = std::chrono::steady_clock::now() + bound;
    while (!worker().idle() && std::chrono::steady_clock::now() < deadline) {
      worker().on_tick(now());
      send_all();
      pollfd ready{socket_.fd(), POLLIN, 0};
      poll(&ready, 1, 1);
      if (!receive_all()) return false;
      worker().pop_completed();
    }
    return worker().idle();
  }

 private:
  void send_all() {
    while (const auto packet = session_.next_packet(now(), buffer_)) {
      sendto(socket_.fd(), buffer_, packet->size, 0, net::as_sockaddr(switch_), switch_.size);
      tap_.saw(buffer_, packet->size);
    }
  }
  bool receive_all() {
    for (;;) {
      const ssize_t size = recv(socket_.fd(), buffer_, sizeof(buffer_), MSG_DONTWAIT);
      if (size < 0) return true;
      const auto header = session_.accept({buffer_, static_cast<std::size_t>(size)});
      if (!header) continue;
      const Session::Reply reply = session_.on_reply(*header, {buffer_, static_cast<std::size_t>(size)}, now());
      if (reply == Session::Reply::kRefused || reply == Session::Reply::kAborted) return false;
    }
  }

  net::UdpSocket socket_;
  Address switch_;
  Session session_;
  Tap& tap_;
  alignas(4) std::uint8_t buffer_[wire::kMaxPacketSize];
};

// Returns a well-formed packet of the attacker's own job, with arbitrary numbers.
Packet own(const JobSpec& job, std::mt19937_64& random) {
  const auto odd = [&](std::uint32_t range, std::uint32_t sensible) {
    return static_cast<std::uint32_t>(random() % (random() % 8 == 0 ? range : sensible));
  };
  wire::Header header{.kind = wire::Kind::kUpdate,
                      .job = job.job,
                      .secret = job.secret,
                      .worker = static_cast<std::uint16_t>(odd(65536, job.shape.workers())),
                      .slot = static_cast<std::uint16_t>(odd(65536, job.shape.slots())),
                      .epoch = odd(0xffffffff, 4),
                      .fingerprint = odd(5000, 1),
                      .words = static_cast<std::uint16_t>(odd(100, 3)),
                      .exponents = static_cast<std::uint8_t>(odd(100, 1)),
                      .code = 0};
  Packet packet(wire::packet_size(header.words, header.exponents), 0x33);
  wire::seal(header, packet.data(), packet.size());
  return packet;
}

const JobSpec kMarkers{
    .job = 10,
    .secret = 10,
    .shape = JobShape(
        {.devices = 1, .workers = 1, .slots = 1, .block_size = 1, .blocks_per_chunk = 1, .widest_element = 1})};

struct Totals {
  std::uint64_t rejected = 0, counted = 0;
  std::map<Counter, std::uint64_t> by_kind;
};

Totals totals_of(const SwitchCounters& counters) {
  Totals totals;
  const auto add = [&](Counter counter, std::uint64_t value) {
    if (!is_reject(counter)) return;
    totals.rejected += value;
    totals.by_kind[counter] += value;
  };
  counters.without_job.for_each(add);
  for (const auto& [id, job] : counters.jobs) {
    job.for_each(add);
    totals.counted += job[Counter::kUpdates] + job[Counter::kDuplicates];
  }
  return totals;
}

class Attacker {
 public:
  Attacker(SoftwareSwitch& software_switch, const std::vector<JobSpec>& victims, const JobSpec& own, const Tap& tap)
      : software_switch_(software_switch),
        own_(own),
        tap_(tap),
        // A burst must not overflow the switch's socket, which also holds the victims' packets: the test must count
        // every packet, and the switch cannot count one that the kernel drops.
        burst_(std::clamp<std::uint64_t>(software_switch.slots_that_fit(job_of(1, 1, {.slots = kMaxSlots}).shape) / 8,
                                         1, 1000)) {
    for (const JobSpec& victim : victims) {
      for (Forgery& forgery : forgeries(victim)) {
        // Empty datagrams do not fit the sender's batches. switch_test.cc sends them.
        if (!forgery.packet.empty()) forgeries_.push_back(std::move(forgery));
      }
    }
  }

  void run() {
    net::UdpSocket socket(net::resolve("127.0.0.1", 0, ErrorCode::kSystem), {});
    const Address target = net::resolve("127.0.0.1", software_switch_.ports()[0], ErrorCode::kSystem);
    net::DatagramSender sender(socket, net::WhenFull::kWait);
    std::uint64_t unsettled = 0;
    while (sent_ < kHostilePackets) {
      add(sender, target, draw());
      ++sent_;
      if (++unsettled == burst_ || sent_ == kHostilePackets) {
        add(sender, target, marker());
        ASSERT_TRUE(sender.flush().ok());
        ASSERT_NO_FATAL_FAILURE(wait_until_read());
        unsettled = 0;
      }
    }
    ASSERT_EQ(sender.packets_unsent(), 0u);
  }

  std::uint64_t forged(Counter reject) const { return forged_.contains(reject) ? forged_.at(reject) : 0; }

 private:
  Packet draw() {
    switch (random_() % 3) {
      case 0: {
        const Forgery& forgery = forgeries_[random_() % forgeries_.size()];
        ++forged_[forgery.counted_as];
        return forgery.packet;
      }
      case 1:
        if (Packet overheard = tap_.any(random_); !overheard.empty()) return overheard;
        [[fallthrough]];
      default: return own(own_, random_);
    }
  }
  static void add(net::DatagramSender& sender, const Address& target, const Packet& packet) {
    std::uint8_t* room = sender.reserve(packet.size());
    if (room == nullptr) {
      ASSERT_TRUE(sender.flush().ok());
      room = sender.reserve(packet.size());
    }
    std::copy(packet.begin(), packet.end(), room);
    sender.add(target, {room, packet.size()});
  }
  // Returns the next pass of a job of one worker. The switch reads packets in order. So when it has counted this one,
  // it has read all packets before it.
  Packet marker() {
    wire::Header header{
        .kind = wire::Kind::kUpdate, .job = kMarkers.job, .secret = kMarkers.secret, .epoch = markers_++};
    Packet packet(wire::packet_size(0, 0));
    wire::seal(header, packet.data(), packet.size());
    return packet;
  }
  void wait_until_read() {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (software_switch_.statistics().jobs.at(kMarkers.job)[Counter::kUpdates] < markers_) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "the switch has not read what was sent";
    }
  }

  SoftwareSwitch& software_switch_;
  const JobSpec own_;
  const Tap& tap_;
  const std::uint64_t burst_;
  std::vector<Forgery> forgeries_;
  std::map<Counter, std::uint64_t> forged_;
  std::mt19937_64 random_{7};
  std::uint64_t sent_ = 0;
  std::uint32_t markers_ = 0;
};

TEST(SwitchHostile, AMillionPacketsAreCountedAndTwoOtherJobsStayExact) {
  constexpr std::uint32_t n = 2;
  SoftwareSwitch software_switch({});
  // The victims have small pools, so that their bursts leave room for the attacker's even in a small socket buffer.
  const JobSpec quiet = job_of(n, 7, {.slots = 8}), overheard = job_of(n, 8, {.slots = 8}), hostile = job_of(n, 9);
  for (const JobSpec& job : {quiet, overheard, hostile, kMarkers}) software_switch.add_job(job);
  Tap tap;
  Attacker attacker(software_switch, {quiet, overheard}, hostile, tap);
  std::atomic<bool> over = false;
  std::thread attack([&] {
    attacker.run();
    over = true;
  });

  // Both jobs sum until the attack is over, and once more. All workers of a job must sum equally often.
  constexpr std::size_t kElements = 60'000;
  std::atomic<std::uint64_t> sums = 0;
  const auto sum_on_and_on = [&](auto submit_and_run) {
    for (std::uint64_t round = 0; !::testing::Test::HasFatalFailure(); ++round) {
      const bool last = over;
      FloatSum sum(n, kElements, round);
      submit_and_run(sum);
      sum.expect_exact();
      ++sums;
      if (last) break;
    }
  };
  std::thread quiet_job([&] {
    std::vector<std::unique_ptr<Endpoint>> endpoints;
    for (const UdpMember& config : configs_for(quiet, software_switch.ports())) endpoints.push_back(config.join());
    sum_on_and_on([&](FloatSum& sum) {
      std::vector<std::thread> workers;
      for (std::uint32_t w = 0; w < n; ++w) {
        workers.emplace_back([&, w] {
          sum.submit(w, *endpoints[w]);
          const Status status = run_to_end(*endpoints[w]);
          EXPECT_TRUE(status.ok()) << status.text();
        });
      }
      for (std::thread& worker : workers) worker.join();
    });
  });
  std::thread overheard_job([&] {
    std::vector<std::unique_ptr<OpenWorker>> open;
    for (std::uint32_t w = 0; w < n; ++w) {
      open.push_back(std::make_unique<OpenWorker>(overheard, w, software_switch.ports()[0], tap));
    }
    sum_on_and_on([&](FloatSum& sum) {
      std::vector<std::thread> workers;
      for (std::uint32_t w = 0; w < n; ++w) {
        workers.emplace_back([&, w] {
          sum.submit(w, open[w]->worker());
          EXPECT_TRUE(open[w]->run_to_end(std::chrono::seconds(60)));
        });
      }
      for (std::thread& worker : workers) worker.join();
    });
  });
  attack.join();
  quiet_job.join();
  overheard_job.join();
  EXPECT_GE(sums, 4u);

  // Every packet that came must be counted, and forgeries must be counted by their kind. How replays and packets of the
  // attacker's own job are counted depends on when they come. Unknown jobs and the like come from forgeries only.
  const SwitchCounters counters = software_switch.statistics();
  const Totals totals = totals_of(counters);
  EXPECT_EQ(totals.rejected + totals.counted, counters.sockets[Counter::kPacketsReceived]);
  EXPECT_GE(counters.sockets[Counter::kPacketsReceived], kHostilePackets);
  for (const Counter reject : {Counter::kUnknownJob, Counter::kWrongSecret, Counter::kNotAnUpdate, Counter::kTruncated,
                               Counter::kForeign, Counter::kBadLength, Counter::kCorrupt}) {
    EXPECT_EQ(totals.by_kind.at(reject), attacker.forged(reject)) << to_string(reject);
    EXPECT_GT(attacker.forged(reject), 0u);
  }
  for (const JobSpec& victim : {quiet, overheard}) {
    const Counters& rejects = counters.jobs.at(victim.job);
    EXPECT_GT(rejects[Counter::kBadWorker], 0u);
    EXPECT_GT(rejects[Counter::kBadSlot], 0u);
    EXPECT_GT(rejects[Counter::kTooLarge], 0u);
    EXPECT_EQ(rejects[Counter::kMismatch], 0u);
    EXPECT_EQ(rejects[Counter::kAborted], 0u);
  }
  EXPECT_GT(counters.jobs.at(overheard.job)[Counter::kStale], 0u);
  RecordProperty("sums", static_cast<int>(sums));
  std::printf("%lu hostile packets, %lu sums exact, %lu duplicates and %lu stale packets replayed\n", kHostilePackets,
              sums.load(), counters.jobs.at(overheard.job)[Counter::kDuplicates],
              counters.jobs.at(overheard.job)[Counter::kStale]);
}

}  // namespace
}  // namespace jaxina
