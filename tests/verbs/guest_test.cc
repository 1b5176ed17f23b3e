// Usage: guest_test CASE. Runs in the guest, and exits with 0 if the case passed. The cases test the verbs transport
// over Linux's Soft-RoCE with the software switch, and the user-space device with Soft-RoCE. The caller decides by tc
// what the wire does to packets.
#include <atomic>
#include <functional>
#include <map>

#include "tests/verbs/device_cases.h"
#include "tests/verbs/expect.h"
#include "tests/verbs/guest_workers.h"
#include "tests/verbs/ring_cases.h"
#include "tests/verbs/sums.h"

using namespace jaxina;
using namespace jaxina::guest;
using numerics::Rounding, numerics::WireWord;

namespace {

std::unique_ptr<RoceSwitch> start_switch(std::optional<std::uint32_t> first_psn = {}, std::uint32_t mtu = 1024) {
  RoceSwitchConfig config;
  config.address = kPeer;
  config.mtu = mtu;
  config.offload = false;
  config.first_psn = first_psn;
  return in_peer([&] { return std::make_unique<RoceSwitch>(config); });
}

struct Variation {
  std::optional<std::uint32_t> first_psn = {};
  std::uint32_t mtu = 1024;
  std::uint32_t blocks_per_chunk = 16;
  std::uint32_t slots = 4;
  WireWord word = WireWord::kInt32;
  Rounding rounding = {};
};

void sum(const std::vector<Kind>& kinds, std::size_t count, const Variation& variation = {}) {
  const auto workers = static_cast<std::uint32_t>(kinds.size());
  const auto roce_switch = start_switch(variation.first_psn, variation.mtu);
  const JobSpec job = job_of(workers, 1, variation.slots, variation.blocks_per_chunk);
  roce_switch->add_job(job);
  Sum sum(workers, count, variation.word, variation.rounding);
  std::vector<std::unique_ptr<Endpoint>> endpoints;
  for (std::uint32_t w = 0; w < workers; ++w)
    endpoints.push_back(join(*roce_switch, job, w, kinds[w], variation.first_psn.value_or(7), variation.mtu));
  std::vector<std::thread> threads;
  const auto start = std::chrono::steady_clock::now();
  for (std::uint32_t w = 0; w < workers; ++w) {
    threads.emplace_back([&, w] {
      sum.submit(w, *endpoints[w]);
      const Status status = run_to_end(*endpoints[w]);
      if (!status.ok()) std::printf("  worker %u: %s\n", w, status.text().c_str());
    });
  }
  for (std::thread& thread : threads) thread.join();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  Counters mine;
  for (const auto& endpoint : endpoints) mine += endpoint->statistics();
  const std::size_t wrong = sum.wrong();
  const SwitchCounters s = roce_switch->statistics();
  const Counters& of_job = s.jobs.at(job.job);
  const auto number = [](std::uint64_t value) { return static_cast<unsigned long long>(value); };
  std::printf(
      "  %.1f MB of %u workers in %.1f s: %zu wrong elements; %llu messages to the switch counted, %llu back; "
      "%llu packets to the switch; sent again %llu messages\n",
      static_cast<double>(sum.bytes()) / 1e6, workers, seconds, wrong,
      number(of_job[Counter::kUpdates] + of_job[Counter::kDuplicates]), number(of_job[Counter::kPacketsSent]),
      number(s.sockets[Counter::kPacketsReceived]), number(mine[Counter::kRetransmissions]));
  std::printf(
      "  the switch dropped %llu packets out of sequence, %llu with a wrong ICRC, %llu malformed; workers refused "
      "%llu\n",
      number(s.without_job[Counter::kRdmaOutOfSequence]), number(s.without_job[Counter::kRdmaWrongIcrc]),
      number(s.without_job[Counter::kRdmaMalformed]), number(mine[Counter::kPacketsRejected]));
  expect(wrong == 0, "every element is right");
  expect(s.without_job[Counter::kRdmaNoAccess] == 0 && s.without_job[Counter::kRdmaBadLength] == 0,
         "no sound message was refused");
}

const std::vector<Kind> kFourVerbs(4, Kind::kVerbs);
constexpr Rounding kStochastic = {.stochastic = true, .seed = 2026};

// One of three workers dies in the middle of a sum. The others join the next job, with a new worker in its place.
void restart() {
  const auto roce_switch = start_switch();
  const JobSpec first = job_of(3, 1), second = job_of(3, 2);
  roce_switch->add_job(first);
  roce_switch->add_job(second);
  Sum never(3, 1'000'000), after(3, 200'000);
  std::atomic<int> dead = 0, ended = 0;
  std::vector<std::thread> threads;
  for (std::uint32_t w = 0; w < 3; ++w) {
    threads.emplace_back([&, w] {
      {
        auto endpoint = join(*roce_switch, first, w, Kind::kVerbs);
        never.submit(w, *endpoint);
        if (w == 2) {
          static_cast<void>(endpoint->progress(10'000'000));
          ++dead;
        } else {
          ended += run_to_end(*endpoint).code == ErrorCode::kWorkerLost;
        }
      }
      if (w == 2) {
        while (dead < 1) std::this_thread::sleep_for(std::chrono::milliseconds(20));
        roce_switch->abort_job(first.job, {ErrorCode::kWorkerLost, "worker 2 died"});
      }
      auto endpoint = join(*roce_switch, second, w, Kind::kVerbs);
      after.submit(w, *endpoint);
      expect(run_to_end(*endpoint).ok(), "the next job runs");
    });
  }
  for (std::thread& thread : threads) thread.join();
  expect(ended == 2, "the survivors are told that a worker died");
  expect(after.wrong() == 0, "the next job's sums are exact");
  std::printf("  a worker died: %d survivors were told, the next job's sums have %zu wrong elements\n", ended.load(),
              after.wrong());
}

const std::map<std::string, std::function<void()>> kCases = {
    // A message is 15 packets with 4096 bytes of words each, and one packet of exponents.
    {"sum-100MB",
     [] { sum(kFourVerbs, 6'250'000, {.first_psn = {}, .mtu = 4096, .blocks_per_chunk = 60, .slots = 3}); }},
    {"sum", [] { sum(kFourVerbs, 125'000); }},
    {"sum-16-bits", [] { sum(kFourVerbs, 125'000, {.word = WireWord::kInt16}); }},
    {"sum-8-bits", [] { sum(kFourVerbs, 125'000, {.word = WireWord::kInt8, .rounding = kStochastic}); }},
    {"psn-wrap", [] { sum(kFourVerbs, 250'000, {.first_psn = 0xffffc0}); }},
    {"mixed", [] { sum({Kind::kVerbs, Kind::kSocket, Kind::kVerbs, Kind::kSocket}, 250'000); }},
    {"mixed-8-bits",
     [] {
       sum({Kind::kVerbs, Kind::kSocket, Kind::kVerbs, Kind::kSocket}, 250'000,
           {.first_psn = 0xffffc0, .word = WireWord::kInt8, .rounding = kStochastic});
     }},
    {"interoperate", interoperate},
    {"wrong-keys", wrong_keys},
    {"wrong-icrc", wrong_icrc},
    {"recover", recover},
    {"refused-devices", refused_devices},
    {"restart", restart},
    {"ring", ring},
    {"ring-of-devices", ring_of_devices},
    {"ring-through-switch", ring_through_switch},
    {"ring-with-late-worker", ring_with_late_worker},
};

}  // namespace

int main(int argc, char** argv) {
  const auto found = kCases.find(argc > 1 ? argv[1] : "");
  if (found == kCases.end()) {
    for (const auto& [name, body] : kCases) std::printf("%s\n", name.c_str());
    return 2;
  }
  std::printf("%s\n", argv[1]);
  try {
    found->second();
  } catch (const Error& error) {
    std::printf("  %s\n", error.what());
    ++failures;
  }
  std::fflush(stdout);
  return failures == 0 ? 0 : 1;
}
