// Tests the transparent switch between network interfaces: workers in network namespaces, and the switch between them.
#include "rdma_engine/switch/frame_switch.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <latch>

#include "rdma_engine/transport/rc/ring_endpoint.h"
#include "rdma_engine/transport/rc/socket_ring.h"
#include "tests/native/hosts_around_switch.h"
#include "tests/native/meeting.h"
#include "tests/native/udp_fixture.h"

namespace jaxina {
namespace {

using namespace testing;

constexpr std::uint32_t kWorkers = 3;
constexpr std::uint32_t kJob = 7;

JobSpec ring_job() { return job_of(kWorkers, kJob, {.slots = 7, .blocks_per_chunk = 16}); }

struct Variation {
  double loss = 0;
  std::uint32_t first_psn = 0;
  bool restarts = false;   // the switch forgets its rings
  bool odd_one = false;    // worker 1 sums more than the others
  bool is_untold = false;  // the switch does not know the ring, as if it were not there
};

// All workers sum through the switch. Returns how each ended, and what they and the switch counted.
struct Outcome {
  std::vector<Status> ended = std::vector<Status>(kWorkers);
  Counters workers;
  SwitchCounters of_switch;
};
Outcome sum_through_switch(HostsAroundSwitch& hosts, std::vector<FloatSum>& sums, const Variation& variation) {
  const JobSpec job = ring_job();
  const auto frames = hosts.at_switch([&] { return std::make_unique<FrameSwitch>(hosts.ports()); });
  Meeting meeting(kWorkers, [&](std::span<const roce::ConnectionEnd> ends) {
    if (variation.is_untold) return;
    frames->add_ring(kJob, job.shape, ends);
    EXPECT_THROW(frames->add_ring(kJob, job.shape, ends), Error) << "there is such a job";
    EXPECT_THROW(frames->add_ring(kJob + 1, job.shape, ends), Error) << "a connection is in one ring only";
  });
  Outcome outcome;
  FloatSum other(kWorkers, 50'000, 3);
  std::mutex mutex;
  std::latch all_ended(kWorkers);
  std::vector<std::thread> threads;
  for (std::uint32_t w = 0; w < kWorkers; ++w) {
    threads.emplace_back([&, w] {
      auto link = hosts.at(w, [&] {
        return std::make_unique<rc::SocketRing>(rc::RingSocketOptions{.host = hosts.address(w),
                                                                      .loss = variation.loss,
                                                                      .loss_seed = w,
                                                                      .first_psn = variation.first_psn,
                                                                      .offload = false},
                                                job.shape);
      });
      link->connect(meeting.exchange(w, link->local()));
      const auto endpoint = rc::make_ring_endpoint(member_of(job, w), std::move(link), false);
      for (std::size_t i = 0; i < sums.size() && outcome.ended[w].ok(); ++i) {
        if (variation.restarts && i == 1 && w == 0) frames->remove_ring(kJob);
        (variation.odd_one && w == 1 ? other : sums[i]).submit(w, *endpoint);
        outcome.ended[w] =
            run_to_end(*endpoint, std::chrono::seconds(variation.restarts || variation.odd_one ? 5 : 60));
      }
      all_ended.arrive_and_wait();  // until then this worker's connections go on
      const std::lock_guard guard(mutex);
      outcome.workers += endpoint->statistics();
    });
  }
  for (std::thread& thread : threads) thread.join();
  outcome.of_switch = frames->statistics();
  return outcome;
}

TEST(FrameSwitch, SumsWhatPassesBetweenWorkers) {
  with_hosts_around_switch(kWorkers, [](HostsAroundSwitch& hosts) {
    std::vector<FloatSum> sums;
    for (const std::size_t count : {1u, 257u, 4097u, 100'000u, 5u}) sums.emplace_back(kWorkers, count, count);
    const Outcome outcome = sum_through_switch(hosts, sums, {});
    for (const Status& status : outcome.ended) EXPECT_TRUE(status.ok()) << status.text();
    for (const FloatSum& sum : sums) sum.expect_exact();
    const Counters& ring = outcome.of_switch.jobs.at(kJob);
    EXPECT_EQ(ring[Counter::kUpdates], kWorkers * ring[Counter::kResults]);
    EXPECT_EQ(ring[Counter::kRdmaWrongIcrc], 0u);
    EXPECT_EQ(outcome.workers[Counter::kPacketsRejected], 0u);
  });
}

// 8 MB, of which each worker's network card loses one packet in 200, across the end of the sequence numbers.
TEST(FrameSwitch, LossesAreRepaired) {
  with_hosts_around_switch(kWorkers, [](HostsAroundSwitch& hosts) {
    std::vector<FloatSum> sums;
    sums.emplace_back(kWorkers, 2'000'000, 5);
    const Outcome outcome = sum_through_switch(hosts, sums, {.loss = 0.005, .first_psn = 0xfffff0});
    for (const Status& status : outcome.ended) EXPECT_TRUE(status.ok()) << status.text();
    sums[0].expect_exact();
    EXPECT_GT(outcome.workers[Counter::kPacketsDropped], 0u);
    EXPECT_GT(outcome.of_switch.jobs.at(kJob)[Counter::kDuplicates], 0u);
  });
}

TEST(FrameSwitch, ASwitchThatHasLostItsRingsEndsTheSumsWithAnError) {
  with_hosts_around_switch(kWorkers, [](HostsAroundSwitch& hosts) {
    std::vector<FloatSum> sums;
    for (std::uint64_t i = 0; i < 2; ++i) sums.emplace_back(kWorkers, 1'000'000, i);
    const Outcome outcome = sum_through_switch(hosts, sums, {.restarts = true});
    // A worker whose previous one has ended before it sent anything hears that from the control plane, which is not
    // here.
    const auto has = [](ErrorCode code) { return [code](const Status& status) { return status.code == code; }; };
    EXPECT_TRUE(std::any_of(outcome.ended.begin(), outcome.ended.end(), has(ErrorCode::kNotSummed)));
    for (const Status& status : outcome.ended) {
      EXPECT_TRUE(has(ErrorCode::kNotSummed)(status) || has(ErrorCode::kTimeout)(status)) << status.text();
    }
  });
}

// Packets go from worker to worker, and nobody sums them, as with cables that lead around the switch.
TEST(FrameSwitch, AProbeTellsThatASwitchIsNotThere) {
  with_hosts_around_switch(kWorkers, [](HostsAroundSwitch& hosts) {
    std::vector<FloatSum> sums;
    sums.emplace_back(kWorkers, 100'000, 1);
    const Outcome outcome = sum_through_switch(hosts, sums, {.is_untold = true});
    for (const Status& status : outcome.ended) {
      EXPECT_EQ(status.code, ErrorCode::kNotSummed) << status.text();
      EXPECT_NE(status.message.find("probe"), std::string::npos) << status.message;
    }
    EXPECT_LT(outcome.workers[Counter::kBytesSent], 100'000u) << "no data may be sent";
  });
}

// Four workers in two racks, whose switches are connected to a third one: 4 MB, of which each worker's network card
// loses one packet in 500.
TEST(FrameSwitch, RacksAddFirst) {
  constexpr std::uint32_t workers = 4;
  with_hosts_around_switch(workers, [](HostsAroundSwitch& hosts) {
    hosts.add_cable("up0", "down0");
    hosts.add_cable("up1", "down1");
    const JobSpec job = job_of(workers, kJob, {.slots = 7, .blocks_per_chunk = 16});
    const auto make = [&](const std::vector<std::string>& ports) {
      return hosts.at_switch([&] { return std::make_unique<FrameSwitch>(ports); });
    };
    const auto spine = make({"down0", "down1"});
    const std::unique_ptr<FrameSwitch> leaves[] = {make({"port0", "port1", "up0"}), make({"port2", "port3", "up1"})};
    const std::vector<std::uint32_t> racks{0, 0, 1, 1};
    Meeting meeting(workers, [&](std::span<const roce::ConnectionEnd> ends) {
      EXPECT_THROW(spine->add_ring(kJob, job.shape, ends, {{0, 1, 0, 1}, {}}), Error) << "it comes back to a rack";
      for (std::uint32_t rack = 0; rack < 2; ++rack) leaves[rack]->add_ring(kJob, job.shape, ends, {racks, rack});
      spine->add_ring(kJob, job.shape, ends, {racks, {}});
    });
    FloatSum sum(workers, 1'000'000, 9);
    std::vector<std::thread> threads;
    for (std::uint32_t w = 0; w < workers; ++w) {
      threads.emplace_back([&, w] {
        auto link = hosts.at(w, [&] {
          return std::make_unique<rc::SocketRing>(
              rc::RingSocketOptions{.host = hosts.address(w), .loss = 0.002, .loss_seed = w, .offload = false},
              job.shape);
        });
        link->connect(meeting.exchange(w, link->local()));
        const auto endpoint = rc::make_ring_endpoint(member_of(job, w), std::move(link), false);
        sum.submit(w, *endpoint);
        const Status status = run_to_end(*endpoint);
        EXPECT_TRUE(status.ok()) << status.text();
      });
    }
    for (std::thread& thread : threads) thread.join();
    sum.expect_exact();
    const Counters of_spine = spine->statistics().jobs.at(kJob);
    EXPECT_GT(of_spine[Counter::kResults], 100u);
    for (const auto& leaf : leaves) {
      EXPECT_EQ(leaf->statistics().jobs.at(kJob)[Counter::kUpdates], 2 * of_spine[Counter::kResults]);
    }
  });
}

// The switch does not sum messages of different sizes. It has not lost the job, and no worker may say so.
TEST(FrameSwitch, WorkersThatSumDifferentThingsAreToldThat) {
  with_hosts_around_switch(kWorkers, [](HostsAroundSwitch& hosts) {
    std::vector<FloatSum> sums;
    sums.emplace_back(kWorkers, 1000, 1);
    const Outcome outcome = sum_through_switch(hosts, sums, {.odd_one = true});
    // Worker 1 sums something else. It and its neighbours see that, or hear it from the switch. A worker whose previous
    // one has ended before it sent anything hears it from the control plane, which is not here.
    std::size_t told = 0;
    for (std::uint32_t w = 0; w < kWorkers; ++w) {
      const Status& status = outcome.ended[w];
      if (status.code == ErrorCode::kTimeout) continue;
      EXPECT_EQ(status.code, ErrorCode::kMismatch) << status.text();
      const std::string pair = w == 1 ? "workers 0 and 1" : "workers 1 and 2";  // workers 2 and 0 sum the same
      EXPECT_TRUE(status.message.starts_with("the switch says") || (w > 0 && status.message.starts_with(pair)))
          << status.text();
      ++told;
    }
    EXPECT_GT(told, 0u);
  });
}

// What hosts send each other comes as it was sent: small and large frames, with a tag of a virtual network, and to all.
TEST(FrameSwitch, OtherFramesPassByteForByte) {
  with_hosts_around_switch(kWorkers, [](HostsAroundSwitch& hosts) {
    const auto frames = hosts.at_switch([&] { return std::make_unique<FrameSwitch>(hosts.ports()); });
    RawHost sender = hosts.at(0, [] { return RawHost("eth0"); }),
            receiver = hosts.at(1, [] { return RawHost("eth0"); });
    const RawHost::Address all{0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    for (const std::size_t size : {60u, 61u, 590u, 1514u}) {
      for (const bool tagged : {false, true}) {
        for (const RawHost::Address& to : {receiver.address(), all}) {
          const RawHost::Bytes frame = sender.frame_to(to, size, tagged);
          sender.send(frame);
          EXPECT_EQ(receiver.receive_with_number_of(frame), frame) << size << (tagged ? " tagged" : "");
        }
      }
    }
    // Datagrams and a stream whose checksums and cutting are left to the network card.
    EXPECT_EQ(hosts.sent_by_stream(0, 2, 3'000'000), 3'000'000u);
  });
}

TEST(FrameSwitch, InterfacesThatAreNotThereAreRefused) {
  with_hosts_around_switch(kWorkers, [](HostsAroundSwitch& hosts) {
    hosts.at_switch([&] {
      EXPECT_THROW(FrameSwitch({"port0", "nothing"}), Error);
      EXPECT_THROW(FrameSwitch({"port0"}), Error);
      return 0;
    });
  });
}

}  // namespace
}  // namespace jaxina
