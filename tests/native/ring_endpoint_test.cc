// Tests workers that sum in a ring without a switch: reliable connections over loopback.
#include "rdma_engine/transport/rc/ring_endpoint.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "rdma_engine/transport/rc/socket_ring.h"
#include "tests/native/meeting.h"
#include "tests/native/udp_fixture.h"

namespace jaxina {
namespace {

using namespace testing;

JobSpec ring_of(std::uint32_t workers) { return job_of(workers, 7, {.slots = 7, .blocks_per_chunk = 16}); }

// Runs body(worker, endpoint) on a thread for each worker.
template <typename Body>
void with_ring(const JobSpec& job, rc::RingSocketOptions options, Body body) {
  const std::uint32_t workers = job.shape.workers();
  Meeting meeting(workers);
  std::vector<std::thread> threads;
  for (std::uint32_t w = 0; w < workers; ++w) {
    threads.emplace_back([&, w, options]() mutable {
      options.host = "127.0.0.1";
      options.loss_seed = 1000 + w;
      auto link = std::make_unique<rc::SocketRing>(options, job.shape);
      link->connect(meeting.exchange(w, link->local()));
      const auto endpoint = rc::make_ring_endpoint(member_of(job, w), std::move(link), true);
      body(w, *endpoint);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void sum_and_check(const JobSpec& job, const rc::RingSocketOptions& options, const std::vector<std::size_t>& counts) {
  std::vector<FloatSum> sums;
  for (const std::size_t count : counts) sums.emplace_back(job.shape.workers(), count, 31 + count);
  with_ring(job, options, [&](std::uint32_t w, Endpoint& endpoint) {
    for (FloatSum& sum : sums) {
      sum.submit(w, endpoint);
      const Status status = run_to_end(endpoint);
      ASSERT_TRUE(status.ok()) << status.text();
    }
  });
  for (const FloatSum& sum : sums) sum.expect_exact();
}

TEST(RingEndpoint, SumsAreBitExactForEverySizeAndNumberOfWorkers) {
  for (const std::uint32_t workers : {2u, 3u, 4u, 7u}) {
    sum_and_check(ring_of(workers), {}, {1, 255, 257, 4097, 100'000});
  }
}

TEST(RingEndpoint, PacketsOfEverySize) {
  for (const std::size_t mtu : {256u, 1024u, 4096u}) sum_and_check(ring_of(3), {.mtu = mtu}, {1, 5000, 100'000});
}

// 8 MB, while each worker loses one packet in 200, across the end of the sequence numbers.
TEST(RingEndpoint, LossesAreRepairedByTheConnections) {
  std::atomic<std::uint64_t> dropped = 0, again = 0;
  FloatSum sum(3, 2'000'000, 5);
  with_ring(ring_of(3), {.mtu = 1024, .loss = 0.005, .first_psn = 0xffff00}, [&](std::uint32_t w, Endpoint& endpoint) {
    sum.submit(w, endpoint);
    const Status status = run_to_end(endpoint);
    EXPECT_TRUE(status.ok()) << status.text();
    dropped += endpoint.statistics()[Counter::kPacketsDropped];
    again += endpoint.statistics()[Counter::kRetransmissions];
  });
  sum.expect_exact();
  EXPECT_GT(dropped, 0u);
  EXPECT_GT(again, 0u);
}

// A worker that has all its results and does nothing more still answers, and repeats what was lost.
TEST(RingEndpoint, AWorkerThatIsAwayStillServesTheOthers) {
  constexpr std::uint32_t workers = 3;
  std::vector<FloatSum> sums;
  for (std::uint64_t round = 0; round < 200; ++round) sums.emplace_back(workers, 300, round);
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::uint32_t> finished(sums.size());
  with_ring(ring_of(workers), {.loss = 0.05}, [&](std::uint32_t w, Endpoint& endpoint) {
    for (std::size_t i = 0; i < sums.size(); ++i) {
      sums[i].submit(w, endpoint);
      const Status status = run_to_end(endpoint);
      ASSERT_TRUE(status.ok()) << status.text();
      // Nobody drives the endpoint until all workers have the result.
      std::unique_lock lock(mutex);
      ++finished[i];
      changed.notify_all();
      ASSERT_TRUE(changed.wait_for(lock, std::chrono::seconds(60), [&] { return finished[i] == workers; }));
    }
  });
  for (const FloatSum& sum : sums) sum.expect_exact();
}

TEST(RingEndpoint, WorkersThatSumDifferentThingsGetAnErrorThatNamesThem) {
  FloatSum small(3, 100, 1), large(3, 200, 1);
  std::vector<Status> ended(3);
  with_ring(ring_of(3), {}, [&](std::uint32_t w, Endpoint& endpoint) {
    (w == 1 ? small : large).submit(w, endpoint);
    ended[w] = run_to_end(endpoint, std::chrono::seconds(2));
  });
  const auto named =
      std::find_if(ended.begin(), ended.end(), [](const Status& s) { return s.code == ErrorCode::kMismatch; });
  ASSERT_NE(named, ended.end());
  EXPECT_NE(named->message.find('1'), std::string::npos) << named->message;
  for (const Status& status : ended) EXPECT_FALSE(status.ok());
}

// A link over which nothing goes. It counts how often it is waited for.
class IdleLink final : public rc::RingLink {
 public:
  IdleLink(const JobShape& shape, int& lingered)
      : memory_(rc::RingMemory(shape).receive_bytes()), lingered_(lingered) {}
  std::span<std::uint8_t> send_memory() override { return memory_; }
  std::span<const std::uint8_t> receive_memory() const override { return memory_; }
  bool adopt(const std::function<ExportedMemory()>&) override { return false; }
  void post_write(std::size_t, std::span<const std::uint8_t>, std::span<const std::uint8_t>, std::uint64_t,
                  std::uint32_t) override {}
  void post(const rc::RingPlace&, std::span<const std::uint8_t>, std::uint32_t) override {}
  std::span<std::uint8_t> at(const rc::RingPlace&, std::size_t) override { return memory_; }
  Status flush() override { return {}; }
  Status poll(std::vector<Arrival>&) override { return {}; }
  void wait(Nanoseconds) override {}
  void interrupt() override {}
  Status reset(std::size_t) override { return {}; }
  Counters counters() const override { return {}; }
  const Status& ended() const override { return ended_; }
  void linger() override { ++lingered_; }

 private:
  std::vector<std::uint8_t> memory_;
  Status ended_;
  int& lingered_;
};

TEST(RingEndpoint, OnlyAWorkerThatEndsInOrderWaitsUntilTheNextOneHasEverything) {
  const JobSpec job = ring_of(2);
  for (const bool gives_up : {false, true}) {
    int lingered = 0;
    auto endpoint = rc::make_ring_endpoint(member_of(job, 0), std::make_unique<IdleLink>(job.shape, lingered), true);
    if (gives_up) endpoint->end({ErrorCode::kWorkerLost, "another worker is gone"});
    endpoint.reset();
    EXPECT_EQ(lingered, gives_up ? 0 : 1);
  }
}

TEST(RingEndpoint, MoreSlotsThanAnImmediateCanNameAreRefused) {
  const JobSpec job = job_of(2, 7, {.slots = 129});
  EXPECT_THROW(rc::SocketRing({.host = "127.0.0.1"}, job.shape), Error);
}

TEST(RingMemory, AnImmediateNamesSlotAndKindAndMostOfTheFingerprint) {
  const rc::RingMemory memory(job_of(2, 7, {.slots = 128}).shape);
  for (const std::size_t slot : {0u, 5u, 127u}) {
    for (const bool is_partial : {false, true}) {
      const std::uint32_t immediate = memory.immediate_of({.slot = slot, .is_partial = is_partial}, 0x12345678);
      EXPECT_EQ(memory.arrival_of(immediate, 40).queue, slot);
      EXPECT_EQ(roce::ring_kind_of(immediate), is_partial ? roce::RingKind::kPartial : roce::RingKind::kAsSent);
      EXPECT_TRUE(memory.is_of(immediate, 0x12345678));
      EXPECT_FALSE(memory.is_of(immediate, 0x12345478));
    }
  }
}

TEST(RingEndpoint, NarrowWordsAreRefused) {
  with_ring(ring_of(2), {}, [&](std::uint32_t, Endpoint& endpoint) {
    std::vector<float> values(1000, 1.0f);
    Tensor tensor{ElementType::kFloat32, values.size(), values.data(), values.data()};
    tensor.word = numerics::WireWord::kInt8;
    EXPECT_THROW(endpoint.worker().submit({.tensors = {tensor}}), Error);
  });
}

}  // namespace
}  // namespace jaxina
