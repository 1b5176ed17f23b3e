#include "tests/verbs/ring_cases.h"

#include <string>
#include <vector>

#include "rdma_engine/switch/frame_switch.h"
#include "rdma_engine/transport/rc/ring_endpoint.h"
#include "rdma_engine/transport/rc/socket_ring.h"
#include "rdma_engine/transport/verbs/verbs_ring.h"
#include "tests/native/meeting.h"
#include "tests/verbs/expect.h"
#include "tests/verbs/guest_workers.h"
#include "tests/verbs/sums.h"

namespace jaxina::guest {
namespace {

constexpr std::uint32_t kRing = 3;             // the job
constexpr std::uint32_t kFirstPsn = 0xffffc0;  // soon at the end of the numbers
constexpr std::size_t kMtu = 1024;

// Where a worker is: in no namespace with Soft-RoCE, in another one with a socket.
struct Place {
  const char* netns = "";
  const char* address = kHere;
};
struct Variation {
  bool has_switch = false;
  bool from_config = false;           // all workers are made as the engine makes them
  std::chrono::milliseconds late{0};  // by which the last worker submits later than the others
};

std::unique_ptr<Endpoint> join_ring(const JobSpec& job, std::uint32_t worker, const Place& place,
                                    testing::Meeting& meeting, const Variation& variation) {
  const bool has_switch = variation.has_switch;
  if (variation.from_config) {
    return make_endpoint(
        member_of(job, worker),
        VerbsRingConfig{.device = {.name = "rxe0", .port = 1},
                        .exchange = [&](const roce::ConnectionEnd& local) { return meeting.exchange(worker, local); },
                        .has_switch = has_switch});
  }
  const auto connected = [&](auto link) {
    link->connect(meeting.exchange(worker, link->local()));
    return rc::make_ring_endpoint(member_of(job, worker), std::move(link), !has_switch);
  };
  if (*place.netns == 0) {
    return connected(std::make_unique<verbs::VerbsRing>(
        verbs::RingOptions{.device = {}, .address = place.address, .mtu = kMtu, .first_psn = kFirstPsn}, job.shape));
  }
  return connected(in_namespace(place.netns, [&] {
    rc::RingSocketOptions options{.host = place.address, .port = roce::kUdpPort, .mtu = kMtu};
    options.first_psn = kFirstPsn;
    options.offload = false;
    return std::make_unique<rc::SocketRing>(options, job.shape);
  }));
}

void sum_in_ring(const std::vector<Place>& places, std::size_t count, const Variation& variation = {}) {
  const auto workers = static_cast<std::uint32_t>(places.size());
  const JobSpec job = job_of(workers, kRing);
  std::unique_ptr<FrameSwitch> frames;
  if (variation.has_switch) {
    frames = in_namespace("switch",
                          [] { return std::make_unique<FrameSwitch>(std::vector<std::string>{"p0", "p1", "p2"}); });
  }
  testing::Meeting meeting(workers, [&](std::span<const roce::ConnectionEnd> ends) {
    if (frames) frames->add_ring(kRing, job.shape, ends);
  });
  Sum sum(workers, count);
  std::vector<Counters> counters(workers);
  std::vector<std::thread> threads;
  const auto start = std::chrono::steady_clock::now();
  for (std::uint32_t w = 0; w < workers; ++w) {
    threads.emplace_back([&, w] {
      const auto endpoint = join_ring(job, w, places[w], meeting, variation);
      if (w + 1 == workers) std::this_thread::sleep_for(variation.late);
      sum.submit(w, *endpoint);
      const Status status = run_to_end(*endpoint);
      expect(status.ok(), "every worker gets the sum");
      if (!status.ok()) std::printf("  worker %u: %s\n", w, status.text().c_str());
      counters[w] = endpoint->statistics();
    });
  }
  for (std::thread& thread : threads) thread.join();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const std::size_t wrong = sum.wrong();
  Counters all;
  for (const Counters& one : counters) all += one;
  const auto number = [](std::uint64_t value) { return static_cast<unsigned long long>(value); };
  std::printf(
      "  %.1f MB of %u workers in %.1f s: %zu wrong elements; %llu packets sent, %llu of them again by sockets\n",
      static_cast<double>(sum.bytes()) / 1e6, workers, seconds, wrong, number(all[Counter::kPacketsSent]),
      number(all[Counter::kRetransmissions]));
  if (frames) {
    const Counters& of_ring = frames->statistics().jobs.at(kRing);
    std::printf("  the switch added %llu messages to %llu sums; copies %llu, out of sequence %llu, wrong ICRC %llu\n",
                number(of_ring[Counter::kUpdates]), number(of_ring[Counter::kResults]),
                number(of_ring[Counter::kDuplicates]), number(of_ring[Counter::kRdmaOutOfSequence]),
                number(of_ring[Counter::kRdmaWrongIcrc]));
    expect(of_ring[Counter::kUpdates] == workers * of_ring[Counter::kResults], "every sum has all workers");
  }
  expect(wrong == 0, "every element is right");
}

const std::vector<Place> kAroundSwitch = {{}, {"peer", "10.9.0.2"}, {"third", "10.9.0.3"}};

}  // namespace

void ring() { sum_in_ring({{}, {"peer", "10.9.0.2"}, {}, {"peer", "10.9.0.3"}}, 250'000); }
void ring_of_devices() { sum_in_ring({{}, {}, {}, {}}, 250'000, {.from_config = true}); }
void ring_through_switch() { sum_in_ring(kAroundSwitch, 250'000, {.has_switch = true}); }
// The packets of the others wait at the switch, and look lost to their senders.
void ring_with_late_worker() {
  sum_in_ring(kAroundSwitch, 50'000, {.has_switch = true, .late = std::chrono::milliseconds(3000)});
}

}  // namespace jaxina::guest
