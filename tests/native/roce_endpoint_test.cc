// Tests the roce transport with the software switch over loopback: sums under loss, and packets that must be refused.
#include <gtest/gtest.h>

#include "rdma_engine/net/socket_address.h"
#include "tests/native/roce_fixture.h"

namespace jaxina {
namespace {

using namespace testing;
using roce::SocketQueuePairs;

TEST(RoceEndpoint, SumsAreBitExactForEverySize) {
  for (const std::uint32_t n : {1u, 2u, 4u}) {
    RoceSwitch roce_switch({.port = 0});
    const JobSpec job = job_of(n);
    roce_switch.add_job(job);
    std::vector<FloatSum> sums;
    for (const std::size_t count : {1u, 255u, 257u, 1024u, 5000u, 32u * 1024u, 100'000u})
      sums.emplace_back(n, count, 31 * n + count);
    with_roce_workers(roce_switch, members_of(job), {}, [&](std::uint32_t w, Endpoint& endpoint) {
      for (FloatSum& sum : sums) {
        sum.submit(w, endpoint);
        const Status status = run_to_end(endpoint);
        ASSERT_TRUE(status.ok()) << status.text();
      }
    });
    for (const FloatSum& sum : sums) sum.expect_exact();
    const Counters without_job = roce_switch.statistics().without_job;
    for (const Counter counter : {Counter::kRdmaNoAccess, Counter::kRdmaBadLength, Counter::kRdmaWrongIcrc}) {
      EXPECT_EQ(without_job[counter], 0u) << to_string(counter);
    }
  }
}

TEST(RoceEndpoint, SixteenPacketMessagesWithLossInBothDirections) {
  constexpr std::uint32_t n = 3;
  RoceSwitch roce_switch({.port = 0, .loss = 0.005, .loss_seed = 1});
  const JobSpec job = job_of(n, 7, {.blocks_per_chunk = 16});
  roce_switch.add_job(job);
  FloatSum sum(n, 1'000'000, 5);
  std::atomic<std::uint64_t> dropped = 0, retransmissions = 0;
  const roce::SocketOptions options{.host = "127.0.0.1", .loss = 0.005, .first_psn = 0xfffff0};
  with_roce_workers(roce_switch, members_of(job), options, [&](std::uint32_t w, Endpoint& endpoint) {
    sum.submit(w, endpoint);
    const Status status = run_to_end(endpoint);
    EXPECT_TRUE(status.ok()) << status.text();
    dropped += endpoint.statistics()[Counter::kPacketsDropped];
    retransmissions += endpoint.statistics()[Counter::kRetransmissions];
  });
  sum.expect_exact();
  EXPECT_GT(dropped, 0u);
  EXPECT_GT(retransmissions, 0u);
  const SwitchCounters counters = roce_switch.statistics();
  EXPECT_GT(counters.sockets[Counter::kPacketsDropped], 0u);
  EXPECT_GT(counters.without_job[Counter::kRdmaOutOfSequence], 0u);  // packets after a lost one of the same message
}

TEST(RoceEndpoint, PacketsAreAsLargeAsBothEndsAndTheirRouteAllow) {
  for (const std::uint32_t of_switch : {512u, 4096u}) {
    RoceSwitch roce_switch({.port = 0, .mtu = of_switch});
    const JobSpec job = job_of(1, 7, {.blocks_per_chunk = 16});
    roce_switch.add_job(job);
    roce::ConnectionEnd offered, answered;
    const auto exchange = [&](const roce::ConnectionEnd& end) {
      return answered = roce_switch.connect(job.job, 0, offered = end);
    };
    const auto endpoint = make_endpoint(member_of(job, 0), RoceConfig{.address = "127.0.0.1", .exchange = exchange});
    EXPECT_EQ(offered.mtu, 4096u) << "loopback's packets are larger";
    EXPECT_EQ(answered.mtu, of_switch);
    FloatSum sum(1, 100'000, 1);
    sum.submit(0, *endpoint);
    ASSERT_TRUE(run_to_end(*endpoint).ok());
    sum.expect_exact();
    const std::size_t packets = roce::packets_of(roce::MessageLayout(job.shape).largest(), of_switch);
    const std::size_t messages = 100'000 / job.shape.words_per_chunk() + 1;
    const std::size_t look_ahead = job.shape.slots();  // at most one packet of exponents for each slot
    // A busy machine makes the worker send some messages again.
    const Counters counters = endpoint->statistics();
    const std::size_t sent = messages + counters[Counter::kRetransmissions];
    EXPECT_LE(counters[Counter::kPacketsSent], sent * packets + look_ahead);
  }
}

// Otherwise a flood of them would keep the worker's thread for as long as it lasts.
TEST(RoceEndpoint, ForeignPacketsThatHaveArrivedAreNotAllReadAtOnce) {
  SocketQueuePairs pairs({.host = "127.0.0.1"}, 1, 4096, 4096);
  const net::UdpSocket stranger(net::resolve("127.0.0.1", 0, ErrorCode::kSystem), {});
  const Address to = net::from_ipv4("127.0.0.1", pairs.local().udp_port);
  for (int i = 0; i < 4096; ++i) {
    sendto(stranger.fd(), "?", 1, 0, reinterpret_cast<const sockaddr*>(to.bytes.data()), to.size);
  }
  std::vector<SocketQueuePairs::Arrival> arrivals;
  ASSERT_TRUE(pairs.poll(arrivals).ok());
  EXPECT_TRUE(arrivals.empty());
  EXPECT_GT(pairs.counters()[Counter::kPacketsReceived], 0u);
  EXPECT_LE(pairs.counters()[Counter::kPacketsReceived], 64u * roce::kBatchesInARow);
}

TEST(RoceEndpoint, AWorkerThatRestartsGetsNewQueuePairsAndTheOldOnesAreGone) {
  RoceSwitch roce_switch({.port = 0});
  const JobSpec job = job_of(1);
  roce_switch.add_job(job);
  FloatSum first(1, 1000, 1), second(1, 1000, 2);
  auto old_one = roce_endpoint(roce_switch, member_of(job, 0));
  first.submit(0, *old_one);
  ASSERT_TRUE(run_to_end(*old_one).ok());
  // A new incarnation is a new job; a second connection of the same worker replaces the first at once.
  const JobSpec again = job_of(1, 8);
  roce_switch.add_job(again);
  auto new_one = roce_endpoint(roce_switch, member_of(again, 0));
  roce_switch.remove_job(job.job);
  second.submit(0, *new_one);
  ASSERT_TRUE(run_to_end(*new_one).ok());
  FloatSum lost(1, 1000, 3);
  lost.submit(0, *old_one);
  for (int i = 0; i < 5 && old_one->progress(20'000'000).ok(); ++i) {
  }
  EXPECT_GT(roce_switch.statistics().without_job[Counter::kRdmaUnknownQueuePair], 0u);
  EXPECT_FALSE(old_one->worker().has_completed());
  first.expect_exact();
  second.expect_exact();
}

TEST(RoceEndpoint, AMismatchEndsTheJobForEveryWorkerWithTheReason) {
  RoceSwitch roce_switch({.port = 0});
  const JobSpec job = job_of(2);
  roce_switch.add_job(job);
  FloatSum small(2, 100, 1), large(2, 200, 1);
  std::atomic<int> mismatches = 0;
  with_roce_workers(roce_switch, members_of(job), {}, [&](std::uint32_t w, Endpoint& endpoint) {
    (w == 0 ? small : large).submit(w, endpoint);
    const Status status = run_to_end(endpoint);
    mismatches += status.code == ErrorCode::kMismatch;
  });
  EXPECT_EQ(mismatches, 2);
}

TEST(RoceEndpoint, NamesTheMissingWorkers) {
  RoceSwitch roce_switch({.port = 0});
  const JobSpec job = job_of(3);
  roce_switch.add_job(job);
  FloatSum sum(3, 1000, 1);
  auto endpoint = roce_endpoint(roce_switch, member_of(job, 1));
  sum.submit(1, *endpoint);
  for (int i = 0; i < 100 && endpoint->missing().empty(); ++i) ASSERT_TRUE(endpoint->progress(20'000'000).ok());
  EXPECT_EQ(endpoint->missing(), (std::vector<std::uint32_t>{0, 2}));
  EXPECT_EQ(roce_switch.missing(job.job), (std::vector<std::uint32_t>{0, 2}));
}

// A worker whose packets the test writes by hand, to send what a real worker never would.
class Intruder {
 public:
  explicit Intruder(RoceSwitch& roce_switch, const JobSpec& job)
      : layout_(job.shape),
        pairs_({.host = "127.0.0.1"}, layout_.queues(), 4096, layout_.receive_bytes()),
        end_(roce_switch.connect(job.job, 0, pairs_.local())) {}

  // Sends a look-ahead pass of slot 0 (a check and an exponent) to this address with this key.
  void write(std::uint64_t address, std::uint32_t rkey, std::size_t queue = 0, std::size_t bytes = 12) {
    roce::ConnectionEnd end = end_;
    end.rkey = rkey;
    pairs_.connect(end);
    pairs_.post_write(queue, pairs_.send_memory().first(bytes), {}, address, 1);
    ASSERT_TRUE(pairs_.flush().ok());
  }
  std::uint32_t rkey() const { return end_.rkey; }

 private:
  roce::MessageLayout layout_;
  SocketQueuePairs pairs_;
  roce::ConnectionEnd end_;
};

template <typename Count>
std::uint64_t wait_for(Count count, std::uint64_t wanted) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (count() < wanted && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return count();
}

TEST(RoceSwitch, AWrongKeyAddressOrLengthChangesNothingAndIsCounted) {
  RoceSwitch roce_switch({.port = 0});
  const JobSpec job = job_of(1);
  roce_switch.add_job(job);
  Intruder intruder(roce_switch, job);
  const std::uint64_t sound = roce::address_of({0, 0, 1});
  const auto refused = [&] { return roce_switch.statistics().without_job[Counter::kRdmaNoAccess]; };
  intruder.write(sound, intruder.rkey() ^ 1);
  intruder.write(roce::address_of({0, 1, 1}), intruder.rkey());    // another slot's queue pair
  intruder.write(roce::address_of({0, 0, 200}), intruder.rkey());  // more exponents than blocks
  intruder.write(sound | 4, intruder.rkey());                      // an address that names no pass
  intruder.write(sound, intruder.rkey(), 0, 4);                    // too short for its check
  intruder.write(sound, intruder.rkey(), job.shape.slots());       // the queue pair of the notices
  EXPECT_EQ(wait_for(refused, 6), 6u);
  EXPECT_EQ(roce_switch.statistics().jobs.at(job.job)[Counter::kUpdates], 0u);
  intruder.write(sound, intruder.rkey());
  EXPECT_EQ(wait_for([&] { return roce_switch.statistics().jobs.at(job.job)[Counter::kResults]; }, 1), 1u);
}

TEST(RoceSwitch, AWrongIcrcIsDroppedUnlessTheCheckIsOff) {
  for (const auto policy : {roce::IcrcPolicy::kCheck, roce::IcrcPolicy::kIgnore}) {
    RoceSwitch roce_switch({.port = 0, .icrc = policy});
    const JobSpec job = job_of(1);
    roce_switch.add_job(job);
    roce::MessageLayout layout(job.shape);
    net::UdpSocket socket(net::resolve("127.0.0.1", 0, ErrorCode::kSystem), {});
    roce::ConnectionEnd end{.address = "127.0.0.1",
                            .udp_port = net::port_of(socket.local()),
                            .mtu = 1024,
                            .qpns = std::vector<std::uint32_t>(layout.queues()),
                            .psn = 0,
                            .rkey = 0,
                            .memory = 0};
    end = roce_switch.connect(job.job, 0, end);
    std::uint8_t packet[32 + 12 + 4];
    roce::write(
        {.qpn = end.qpns[0], .address = roce::address_of({0, 0, 1}), .rkey = end.rkey, .length = 12, .immediate = 1},
        packet);
    std::fill(packet + 32, packet + 48, std::uint8_t{0});
    const Address to = net::resolve("127.0.0.1", roce_switch.port(), ErrorCode::kSystem);
    ASSERT_EQ(sendto(socket.fd(), packet, sizeof(packet), 0, net::as_sockaddr(to), to.size), 48);
    const bool checks = policy == roce::IcrcPolicy::kCheck;
    const auto seen = [&] {
      const SwitchCounters counters = roce_switch.statistics();
      return counters.without_job[Counter::kRdmaWrongIcrc] + counters.jobs.at(job.job)[Counter::kResults];
    };
    EXPECT_EQ(wait_for(seen, 1), 1u);
    EXPECT_EQ(roce_switch.statistics().without_job[Counter::kRdmaWrongIcrc], checks ? 1u : 0u);
  }
}

}  // namespace
}  // namespace jaxina
