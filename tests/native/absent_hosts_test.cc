// Tests that packets to hosts that do not exist hold nobody else up. Such packets lie in the socket's send buffer for
// seconds.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "rdma_engine/net/datagram_receiver.h"
#include "rdma_engine/net/datagram_sender.h"
#include "rdma_engine/net/next_hops.h"
#include "tests/native/hostile_packets.h"
#include "tests/native/network_namespace.h"
#include "tests/native/udp_fixture.h"

namespace jaxina {
namespace {

using namespace testing;
using Clock = std::chrono::steady_clock;
using net::DatagramSender;
using net::Priority;
using net::WhenFull;
using std::chrono::milliseconds;

constexpr std::size_t kSmallBuffer = 212'992;  // bytes; the most that a socket gets without privileges

Address here(const std::string& host) { return net::resolve(host, 0, ErrorCode::kSystem); }

void add(DatagramSender& sender, const Address& to, std::size_t size, Priority priority = Priority::kNormal) {
  std::uint8_t* room = sender.reserve(size);
  ASSERT_NE(room, nullptr);
  std::memset(room, 7, size);
  sender.add(to, {room, size}, priority);
}

// Sends half a megabyte to hosts that do not exist. That is more than the socket takes.
void fill_up(DatagramSender& sender) {
  for (int i = 0; i < 250; ++i) add(sender, net::resolve(absent_host(i), 9, ErrorCode::kSystem), 2000);
}

TEST(AbsentHosts, ADroppingSenderDoesNotWait) {
  in_own_network([] {
    net::UdpSocket socket(here("0.0.0.0"), {.send_buffer = kSmallBuffer});
    DatagramSender sender(socket, WhenFull::kDrop);
    fill_up(sender);
    const auto start = Clock::now();
    EXPECT_TRUE(sender.flush().ok());
    EXPECT_LT(Clock::now() - start, milliseconds(50));
    EXPECT_GT(sender.packets_unsent(), 0u);
  });
}

TEST(AbsentHosts, AWaitingSenderWaitsABoundedTimeAndLosesTheRest) {
  in_own_network([] {
    net::UdpSocket socket(here("0.0.0.0"), {.send_buffer = kSmallBuffer, .report_unreachable = true});
    DatagramSender sender(socket, WhenFull::kWait);
    fill_up(sender);
    const auto start = Clock::now();
    const Status status = sender.flush();
    EXPECT_TRUE(status.ok()) << status.text();
    EXPECT_GE(Clock::now() - start, milliseconds(100));
    EXPECT_LT(Clock::now() - start, milliseconds(500)) << "once in a flush, not for each packet";
    EXPECT_GT(sender.packets_unsent(), 0u);
  });
}

// Sends `absent` packets to absent hosts and one packet to a host that exists, a thousand times. Expects that all
// packets to the host that exists arrive, although the buffer was nearly full.
void expect_room_beside(std::size_t absent, std::size_t size, Priority priority) {
  net::UdpSocket socket(here("0.0.0.0"), {.send_buffer = kSmallBuffer}), target(here("127.0.0.1"), {});
  net::DatagramReceiver receiver(target);
  DatagramSender sender(socket, WhenFull::kDrop);
  constexpr std::size_t kFlushes = 1000;
  std::size_t arrived = 0;
  const auto start = Clock::now();
  for (std::size_t i = 0; i < kFlushes; ++i) {
    for (std::size_t k = 0; k < absent; ++k) {
      add(sender, net::resolve(absent_host(absent * i + k), 9, ErrorCode::kSystem), size, priority);
    }
    add(sender, target.local(), 1000);
    EXPECT_TRUE(sender.flush().ok());
    arrived += receiver.receive([](std::span<const std::uint8_t>, const Address&) {});
  }
  EXPECT_EQ(arrived, kFlushes);
  EXPECT_LT(Clock::now() - start, milliseconds(2000));
  EXPECT_GT(sender.packets_unsent(), kFlushes) << "or the buffer was never near to full";
}

TEST(AbsentHosts, AnswersToStrangersLeaveRoomForTheOthers) {
  in_own_network([] { expect_room_beside(10, 36, Priority::kLow); });
}

TEST(AbsentHosts, PacketsLeaveIfTheNextHopIsResolved) {
  in_own_network([] {
    const net::NextHops hops;
    const auto to = [](const std::string& host) { return net::resolve(host, 9, ErrorCode::kSystem); };
    EXPECT_TRUE(hops.resolved(to("127.0.0.1")));
    EXPECT_TRUE(hops.resolved(to("10.9.0.1"))) << "this host";
    EXPECT_TRUE(hops.resolved(to("fd00:9::1"))) << "this host";
    EXPECT_TRUE(hops.resolved(to("198.51.100.7"))) << "no route: sending fails at once";
    EXPECT_FALSE(hops.resolved(to("10.9.0.7")));
    EXPECT_FALSE(hops.resolved(to("::ffff:10.9.0.7")));
    ASSERT_EQ(std::system("ip neighbour add 10.9.0.8 lladdr 02:00:00:00:00:08 dev near nud stale && "
                          "ip route add 192.0.2.0/25 via 10.9.0.8 && ip route add 192.0.2.128/25 via 10.9.0.9 && "
                          "ip -6 address add fd00:a::1/64 dev near nodad && "
                          "ip -6 neighbour add fd00:a::8 lladdr 02:00:00:00:00:08 dev near"),
              0);
    EXPECT_TRUE(hops.resolved(to("10.9.0.8")));
    EXPECT_TRUE(hops.resolved(to("192.0.2.1"))) << "the gateway is known";
    EXPECT_FALSE(hops.resolved(to("192.0.2.129"))) << "the gateway is not";
    EXPECT_TRUE(hops.resolved(to("fd00:a::8")));
    EXPECT_FALSE(hops.resolved(to("fd00:a::9")));
  });
}

// The same for results of a job, because anyone who has a job can claim that its workers are at absent hosts.
TEST(AbsentHosts, ResultsToAbsentHostsLeaveRoomForTheOthers) {
  in_own_network([] { expect_room_beside(4, 20'000, Priority::kNormal); });
}

TEST(AbsentHosts, AFloodOfForgedPacketsDoesNotSlowTheSwitch) {
  in_own_network([] {
    SoftwareSwitch software_switch({.address = "0.0.0.0", .ports = {}});
    const JobSpec job = job_of(2);
    software_switch.add_job(job);
    const std::vector<std::uint8_t> forged = update(job, {.job = 999, .secret = 5});
    std::atomic<bool> flooding = false, done = false;
    std::thread flood([&] {
      Forger forger;
      for (std::uint64_t sent = 0; !done;) {
        for (int i = 0; flooding && i < 50; ++i) {
          forger.send(absent_host(sent++).c_str(), 4000, software_switch.ports()[0], forged);
        }
        std::this_thread::sleep_for(milliseconds(10));
      }
    });
    // Sums before, during and after the flood; worker 0 measures the time. There are more sums during the flood,
    // because it takes some time until the flood has filled a buffer.
    std::array<std::vector<double>, 3> ms;
    FloatSum sum(2, 5000, 1);
    with_workers(configs_for(job, software_switch.ports()), [&](std::uint32_t w, Endpoint& endpoint) {
      for (int phase = 0; phase < 3; ++phase) {
        if (w == 0) flooding = phase == 1;
        for (int i = 0; i < (phase == 1 ? 1200 : 400); ++i) {
          const auto start = Clock::now();
          sum.submit(w, endpoint);
          const Status status = run_to_end(endpoint, std::chrono::seconds(5));
          ASSERT_TRUE(status.ok()) << "phase " << phase << ", sum " << i << ": " << status.text();
          if (w == 0) ms[phase].push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
        }
      }
    });
    done = true;
    flood.join();
    if (::testing::Test::HasFailure()) return;
    sum.expect_exact();
    const auto median = [](std::vector<double>& times) {
      std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
      return times[times.size() / 2];
    };
    const double before = median(ms[0]), flooded = median(ms[1]), after = median(ms[2]);
    std::printf("ms a sum: %.3f, flooded %.3f, then %.3f\n", before, flooded, after);
    // Two milliseconds allow for other work on a small machine. A switch that waits takes hundreds.
    EXPECT_LT(flooded, 2 * before + 2);
    EXPECT_LT(after, 2 * before + 2);
    EXPECT_GT(software_switch.statistics().without_job[Counter::kUnknownJob], 0u);
  });
}

TEST(AbsentHosts, PacketsWithoutASourceAddressAreCountedAndNotAnswered) {
  in_own_network([] {
    net::UdpSocket socket(here("10.9.0.1"), {});
    net::DatagramReceiver receiver(socket);
    Forger forger;
    const std::uint16_t port = net::port_of(socket.local());
    const std::vector<std::uint8_t> packet(40, 7);
    for (int i = 0; i < 64; ++i) forger.send("10.9.0.7", 0, port, packet);
    forger.send("10.9.0.7", 1, port, packet);
    std::size_t visited = 0, came = 0;
    const auto deadline = Clock::now() + std::chrono::seconds(5);
    while (came < 65 && Clock::now() < deadline) {
      came += receiver.receive([&](std::span<const std::uint8_t>, const Address& from) {
        ++visited;
        EXPECT_EQ(net::port_of(from), 1);
      });
      if (came < 65) socket.wait_readable(100'000'000);
    }
    EXPECT_EQ(visited, 1u);
    EXPECT_EQ(receiver.unanswerable(), 64u);
  });
}

TEST(OwnNetwork, IPv6IsAnsweredFromTheAddressThatWasAsked) {
  in_own_network([] {
    SoftwareSwitch software_switch({.address = "::", .ports = {}});
    const JobSpec job = job_of(3);
    software_switch.add_job(job);
    std::vector<UdpMember> configs = configs_for(job, software_switch.ports());
    configs[0].udp.addresses = ports_of("::1", software_switch.ports());
    configs[1].udp.addresses = ports_of("fd00:9::1", software_switch.ports());
    configs[2].udp.addresses = ports_of("fd00:9::2", software_switch.ports());
    FloatSum sum(3, 50'000, 9);
    with_workers(configs, [&](std::uint32_t w, Endpoint& endpoint) {
      sum.submit(w, endpoint);
      const Status status = run_to_end(endpoint, std::chrono::seconds(5));
      EXPECT_TRUE(status.ok()) << status.text();
      EXPECT_LE(endpoint.statistics()[Counter::kPacketsRejected], endpoint.statistics()[Counter::kRetransmissions]);
    });
    sum.expect_exact();
  });
}

}  // namespace
}  // namespace jaxina
