// What tests of a combining switch share: a switch with a job of three workers, and a server that takes sums.
#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "rdma_engine/combiner/combiner.h"
#include "rdma_engine/datagrams/datagram_aggregator.h"
#include "tests/native/datagram_packets.h"
#include "tests/native/small_shape.h"

namespace jaxina::testing {

using wire::Transmission;

inline constexpr Nanoseconds kLifetime = 1'000;
inline constexpr std::uint32_t kWorkers = 3;
inline constexpr std::uint8_t kServer = 100, kOtherServer = 101, kSwitch = 50, kStranger = 9;

inline WorkerSet set_of(std::initializer_list<std::uint32_t> workers) {
  WorkerSet set{};
  for (const std::uint32_t worker : workers) insert(set, worker);
  return set;
}

inline CombinedJobSpec job_spec(std::uint32_t job) {
  CombinedJobSpec spec{.job = job,
                       .secret = 0xfeedface,
                       .shape = SmallShape{.slots = 4, .block_size = 4, .blocks_per_chunk = 2}.of(kWorkers)};
  for (std::uint16_t worker = 0; worker < kWorkers; ++worker) spec.children.push_back({worker, set_of({worker})});
  spec.upstream = {address(kServer), address(kOtherServer)};
  return spec;
}

class CombinerTest : public ::testing::Test {
 protected:
  explicit CombinerTest(std::uint32_t entries = 8, std::uint32_t share_sent_on = 0,
                        const PhantomQueueOptions& queues = {})
      : combiner_({.table = {.entries = entries, .packet_bytes = 128},
                   .lifetime = kLifetime,
                   .share_sent_on = share_sent_on,
                   .queues = queues}) {
    EXPECT_TRUE(combiner_.add(std::make_unique<CombinedJob>(spec_)));
  }

  wire::Header header(std::uint16_t worker, std::uint32_t epoch,
                      Transmission transmission = Transmission::kFirst) const {
    return {.kind = wire::Kind::kUpdate,
            .job = spec_.job,
            .secret = spec_.secret,
            .worker = worker,
            .slot = 1,
            .epoch = epoch,
            .fingerprint = 100 + epoch,
            .words = 2,
            .exponents = 1,
            .code = static_cast<std::uint8_t>(transmission)};
  }
  Bytes update(std::uint16_t worker, std::uint32_t epoch, Transmission transmission = Transmission::kFirst) const {
    return packet(header(worker, epoch, transmission), 10u * worker, static_cast<std::uint8_t>(50 + worker));
  }
  Bytes result(std::uint32_t epoch) const {
    wire::Header reply = header(wire::kAllWorkers, epoch);
    reply.kind = wire::Kind::kResult;
    return packet(reply, 30, 52);
  }
  std::vector<Sent> deliver(const Bytes& bytes, std::uint8_t from, Nanoseconds now = 0) {
    combiner_.on_packet(bytes, address(from), now, outbox_);
    return outbox_.take();
  }
  std::vector<Sent> from_worker(std::uint16_t worker, std::uint32_t epoch,
                                Transmission transmission = Transmission::kFirst, Nanoseconds now = 0) {
    return deliver(update(worker, epoch, transmission), static_cast<std::uint8_t>(worker), now);
  }
  void expect_sent_on(const std::vector<Sent>& sent, const Bytes& packet) {
    ASSERT_EQ(sent.size(), 1u);
    EXPECT_EQ(sent[0].to, address(kOtherServer));  // slot 1
    EXPECT_EQ(sent[0].bytes, packet);
  }
  std::uint64_t counted(Counter counter) const { return combiner_.find(spec_.job)->counters()[counter]; }

  const CombinedJobSpec spec_ = job_spec(7);
  Combiner combiner_;
  Outbox outbox_;
};

class ServerTest : public ::testing::Test {
 protected:
  ServerTest() {
    const JobSpec spec{
        .job = 7, .secret = 1, .shape = SmallShape{.slots = 1, .block_size = 4, .blocks_per_chunk = 2}.of(kWorkers)};
    EXPECT_TRUE(server_.add(std::make_unique<DatagramJob>(
        spec, Shard{},
        CombiningSwitches{.groups = {set_of({0, 1, 2}), set_of({0, 1})}, .addresses = {address(kSwitch)}})));
  }
  std::vector<Sent> deliver(std::uint16_t sender, std::uint32_t value, std::uint8_t from, std::uint8_t code = 0) {
    const bool group = sender >= wire::kFirstGroup;
    const wire::Header header{.kind = group ? wire::Kind::kCombined : wire::Kind::kUpdate,
                              .job = 7,
                              .secret = 1,
                              .worker = sender,
                              .epoch = epoch_,
                              .fingerprint = 5,
                              .words = 1,
                              .code = code};
    server_.on_packet(packet(header, value), address(from), outbox_);
    return outbox_.take();
  }
  static constexpr std::uint16_t kAll = wire::kFirstGroup, kFirstTwo = wire::kFirstGroup + 1;
  std::uint64_t updates() const { return server_.find(7)->counters()[Counter::kUpdates]; }
  DatagramAggregator server_;
  Outbox outbox_;
  std::uint32_t epoch_ = 0;
};

}  // namespace jaxina::testing
