// Tests that nothing allocates while packets flow: a whole pass from worker to aggregator and back, and the software
// switch's threads. datagram_aggregator_test.cc and worker_test.cc test DatagramAggregator and Worker alone.
#include "tests/native/allocations.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "rdma_engine/datagrams/datagram_aggregator.h"
#include "rdma_engine/datagrams/session.h"
#include "rdma_engine/net/socket_address.h"
#include "rdma_engine/net/udp_socket.h"
#include "rdma_engine/switch/software_switch.h"

namespace jaxina {
namespace {

JobSpec job_of(std::uint32_t workers) {
  return {
      .job = 3,
      .secret = 4,
      .shape = JobShape({.devices = workers, .workers = workers, .slots = 4, .block_size = 64, .blocks_per_chunk = 2})};
}
constexpr std::size_t kElements = 20'000;

// Hands each packet of the aggregator straight to the session of its worker.
struct Wire final : PacketOutput {
  void send(const Address& to, std::span<const std::uint8_t> packet) override {
    alignas(4) static std::uint8_t copy[wire::kMaxPacketSize];
    std::memcpy(copy, packet.data(), packet.size());
    Session& session = *sessions[to.bytes[0]];
    if (const auto header = session.accept({copy, packet.size()})) session.on_reply(*header, {copy, packet.size()}, 0);
  }
  std::vector<Session*> sessions;
};

TEST(Allocations, APassFromWorkersToTheAggregatorAndBack) {
  const JobSpec job = job_of(2);
  DatagramAggregator aggregator;
  ASSERT_TRUE(aggregator.add(std::make_unique<DatagramJob>(job, Shard{})));
  Session first({job.job, job.secret, 0, {.shape = job.shape, .timer = {}}});
  Session second({job.job, job.secret, 1, {.shape = job.shape, .timer = {}}});
  Wire wire;
  wire.sessions = {&first, &second};
  Recorder recorder(64);
  first.worker().record(&recorder);  // a recorder has all its memory from the start
  std::vector<float> x(kElements, 1.5f), y(kElements, 2.25f);
  y[100] = INFINITY;  // so that there is a pass of flags, too
  first.worker().submit({{{ElementType::kFloat32, kElements, x.data(), x.data()}}});
  second.worker().submit({{{ElementType::kFloat32, kElements, y.data(), y.data()}}});

  alignas(4) static std::uint8_t packet[wire::kMaxPacketSize];
  const std::uint64_t before = testing::allocations();
  for (bool moved = true; moved;) {
    moved = false;
    for (std::uint8_t w = 0; w < 2; ++w) {
      while (const auto outgoing = wire.sessions[w]->next_packet(0, packet)) {
        Address from;
        from.bytes[0] = w;
        from.size = 1;
        aggregator.on_packet({packet, outgoing->size}, from, wire);
        aggregator.on_packet({packet, outgoing->size}, from, wire);  // answering a duplicate does not allocate either
        moved = true;
      }
    }
  }
  EXPECT_EQ(testing::allocations(), before);
  EXPECT_GT(recorder.overwritten(), 0u);
  EXPECT_TRUE(first.worker().has_completed() && second.worker().has_completed());
  EXPECT_EQ(x[0], 3.75f);
  EXPECT_EQ(x[100], INFINITY);
}

TEST(Allocations, TheSoftwareSwitchOnceItIsWarm) {
  SoftwareSwitch software_switch({});
  const JobSpec alone = job_of(1);
  software_switch.add_job(alone);
  net::UdpSocket socket(net::resolve("127.0.0.1", 0, ErrorCode::kSystem), {.offload = false});
  const Address to = net::resolve("127.0.0.1", software_switch.ports()[0], ErrorCode::kSystem);
  alignas(4) std::uint8_t packet[wire::packet_size(64, 1)], reply[wire::packet_size(64, 1)];
  // Sends one pass and takes its result, or sends a forged packet and takes the refusal.
  const auto ask = [&](std::uint32_t epoch, bool forged) {
    wire::Header header{.kind = wire::Kind::kUpdate,
                        .job = alone.job,
                        .secret = alone.secret + forged,
                        .epoch = epoch,
                        .fingerprint = 1,
                        .words = 64,
                        .exponents = 1};
    std::memset(packet, 1, sizeof(packet));
    wire::seal(header, packet, sizeof(packet));
    ASSERT_EQ(sendto(socket.fd(), packet, sizeof(packet), 0, net::as_sockaddr(to), to.size), ssize_t{sizeof(packet)});
    pollfd ready{socket.fd(), POLLIN, 0};
    ASSERT_EQ(poll(&ready, 1, 10'000), 1) << "no answer";
    ASSERT_GT(recv(socket.fd(), reply, sizeof(reply), 0), 0);
    ASSERT_EQ(wire::parse({reply, forged ? wire::kHeaderSize : sizeof(reply)}, header), wire::ParseResult::kOk);
    ASSERT_EQ(header.kind, forged ? wire::Kind::kRefused : wire::Kind::kResult);
  };
  std::uint32_t epoch = 0;
  const auto many = [&] {
    for (int i = 0; i < 500 && !HasFatalFailure(); ++i) {
      ask(epoch++, false);
      ask(epoch, true);
    }
  };
  many();
  const std::uint64_t before = testing::allocations();
  many();
  EXPECT_EQ(testing::allocations(), before);
  EXPECT_EQ(software_switch.statistics().jobs.at(alone.job)[Counter::kResults], 1000u);
}

}  // namespace
}  // namespace jaxina
