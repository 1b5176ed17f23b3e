// Tests the software switch: packets of strangers must change nothing; and its control interface.
#include <pthread.h>

#include <atomic>

#include "rdma_engine/wire/packet.h"
#include "tests/native/hostile_packets.h"
#include "tests/native/udp_fixture.h"

namespace jaxina {
namespace {

using namespace testing;

TEST(Switch, ForgedPacketsChangeNothingAndAreCounted) {
  constexpr std::uint32_t n = 2;
  SoftwareSwitch software_switch({});
  const JobSpec job = job_of(n);
  software_switch.add_job(job);
  FloatSum sum(n, 1'000'000, 3);
  const std::vector<Forgery> packets = forgeries(job);
  std::atomic<bool> done = false;
  std::atomic<std::uint64_t> rounds = 0;
  std::thread forger([&] {
    Stranger stranger(software_switch.ports()[0]);
    do {
      for (const Forgery& forgery : packets) stranger.send(forgery.packet);
      ++rounds;
      std::this_thread::yield();
    } while (!done && rounds < 2000);
  });
  with_workers(configs_for(job, software_switch.ports()), [&](std::uint32_t w, Endpoint& endpoint) {
    sum.submit(w, endpoint);
    EXPECT_TRUE(run_to_end(endpoint).ok());
  });
  done = true;
  forger.join();
  sum.expect_exact();

  std::map<Counter, std::uint64_t> expected;
  for (const Forgery& forgery : packets) expected[forgery.counted_as] += rounds;
  // The switch may still be reading. Wait, for a bounded time, until it has seen all packets.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  SwitchCounters counters = software_switch.statistics();
  const auto rejected = [&](Counter reject) {
    return counters.without_job[reject] + counters.jobs.at(job.job)[reject];
  };
  const auto all_seen = [&] {
    for (const auto& [reject, count] : expected) {
      if (rejected(reject) != count) return false;
    }
    return true;
  };
  while (!all_seen() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    counters = software_switch.statistics();
  }
  for (const auto& [reject, count] : expected) {
    EXPECT_EQ(rejected(reject), count) << to_string(reject);
  }
  // Packets that name a job are counted for that job, whoever has sent them.
  EXPECT_EQ(counters.without_job[Counter::kUnknownJob], rounds);
  EXPECT_EQ(counters.jobs.at(job.job)[Counter::kWrongSecret], rounds);
  EXPECT_EQ(counters.jobs.at(job.job)[Counter::kResults], (1'000'000 + 1023) / 1024 + job.shape.slots());
}

// Binds the switch to all of the host's addresses, and sends to one that the system would not choose as a source by
// itself.
void expect_answers_from_the_address_asked(const std::string& bound_to) {
  SoftwareSwitch software_switch({.address = bound_to, .ports = {}});
  const JobSpec job = job_of(2);
  software_switch.add_job(job);
  std::vector<UdpMember> configs = configs_for(job, software_switch.ports());
  configs[1].udp.addresses = ports_of("127.0.0.2", software_switch.ports());
  FloatSum sum(2, 50'000, 9);
  with_workers(configs, [&](std::uint32_t w, Endpoint& endpoint) {
    sum.submit(w, endpoint);
    const Status status = run_to_end(endpoint);
    EXPECT_TRUE(status.ok()) << status.text();
    // Each packet that was sent again may bring a second answer. Answers from a wrong address would be as many as
    // packets.
    EXPECT_LE(endpoint.statistics()[Counter::kPacketsRejected], endpoint.statistics()[Counter::kRetransmissions]);
  });
  sum.expect_exact();
}

TEST(Switch, AnswersFromTheAddressThatWasAsked) { expect_answers_from_the_address_asked("0.0.0.0"); }

TEST(Switch, AnswersIPv4FromTheAddressThatWasAskedOnADualStackSocket) { expect_answers_from_the_address_asked("::"); }

TEST(Switch, WithoutAThreadTheSwitchFailsWithATypedErrorAndLeavesNothing) {
  pthread_attr_t usual, huge;
  ASSERT_EQ(pthread_getattr_default_np(&usual), 0);
  ASSERT_EQ(pthread_attr_init(&huge), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&huge, std::size_t{1} << 47), 0);  // as large as the whole address space
  const std::uint16_t port = SoftwareSwitch({}).ports()[0];
  ASSERT_EQ(pthread_setattr_default_np(&huge), 0);
  Status status;
  try {
    SoftwareSwitch({.ports = {port}});
  } catch (const Error& error) {
    status = error.status();
  }
  ASSERT_EQ(pthread_setattr_default_np(&usual), 0);
  pthread_attr_destroy(&usual);
  pthread_attr_destroy(&huge);
  EXPECT_EQ(status.code, ErrorCode::kSystem) << status.text();
  EXPECT_EQ(SoftwareSwitch({.ports = {port}}).ports()[0], port) << "the port is free again";
}

TEST(Switch, ReplayedPacketsChangeNothing) {
  // An attacker has seen a worker's packets, and sends them again later from another address while the job goes on.
  constexpr std::uint32_t n = 2;
  SoftwareSwitch software_switch({});
  const JobSpec job = job_of(n);
  software_switch.add_job(job);
  std::vector<FloatSum> sums;
  for (int i = 0; i < 20; ++i) sums.emplace_back(n, 60'000, i);
  // The replayed packet is the look-ahead pass of slot 0 with epoch 0. That pass is over after the first round trip,
  // and then the packet's fingerprint does not matter.
  const std::vector<std::uint8_t> old =
      update(job, {.secret = job.secret, .worker = 0, .slot = 0, .epoch = 0, .exponents = 4}, 0);
  std::atomic<bool> started = false, done = false;
  std::atomic<std::uint64_t> replays = 0;
  std::thread replayer([&] {
    Stranger stranger(software_switch.ports()[0]);
    while (!started) std::this_thread::yield();
    while (!done && replays < 20'000) {
      stranger.send(old);
      ++replays;
      std::this_thread::yield();
    }
  });
  with_workers(configs_for(job, software_switch.ports()), [&](std::uint32_t w, Endpoint& endpoint) {
    for (FloatSum& sum : sums) {
      sum.submit(w, endpoint);
      const Status status = run_to_end(endpoint);
      EXPECT_TRUE(status.ok()) << status.text();
      started = true;
      while (replays == 0) std::this_thread::yield();  // so that the other sums come after at least one replay
    }
  });
  done = true;
  replayer.join();
  for (const FloatSum& sum : sums) sum.expect_exact();
  EXPECT_GT(replays, 0u);
  EXPECT_GT(software_switch.statistics().jobs.at(job.job)[Counter::kStale], 0u);
}

TEST(Switch, ControlInterface) {
  SoftwareSwitch software_switch({.ports = {}, .threads = 3});
  EXPECT_EQ(software_switch.ports().size(), 3u);
  const JobSpec job = job_of(2);
  software_switch.add_job(job);
  const auto code_of = [](auto call) {
    try {
      call();
    } catch (const Error& error) {
      return error.status().code;
    }
    return ErrorCode::kOk;
  };
  EXPECT_EQ(code_of([&] { software_switch.add_job(job); }), ErrorCode::kJobRejected);
  EXPECT_EQ(code_of([&] { software_switch.add_job(job_of(5000, 8)); }), ErrorCode::kTooManyWorkers);
  EXPECT_TRUE(software_switch.missing(job.job).empty());
  EXPECT_EQ(software_switch.statistics().jobs.size(), 1u);
  software_switch.remove_job(job.job);
  EXPECT_TRUE(software_switch.statistics().jobs.empty());
  software_switch.remove_job(job.job);  // removing it again is no error
  // No socket buffer here has room for such pools, so the number of slots that fit depends on the number of workers.
  const auto fit = [&](std::uint32_t workers) {
    return software_switch.slots_that_fit(job_of(workers, 1, {.slots = kMaxSlots}).shape);
  };
  EXPECT_GT(fit(2), 0u);
  EXPECT_GT(fit(2), fit(4));
  EXPECT_EQ(software_switch.slots_that_fit(job_of(2, 1, {.slots = 1}).shape), 1u) << "no more than asked for";

  EXPECT_EQ(code_of([&] { SoftwareSwitch({.ports = {software_switch.ports()[0]}}); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of([&] { SoftwareSwitch({.address = "192.0.2.1", .ports = {}}); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of([&] { SoftwareSwitch({.ports = {}, .threads = 0}); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of([&] { SoftwareSwitch({.ports = {1, 2}, .threads = 3}); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of([&] { SoftwareSwitch({.ports = {}, .loss = 1.5}); }), ErrorCode::kInvalidArgument);

  software_switch.stop();
  software_switch.stop();
  EXPECT_EQ(code_of([&] { software_switch.statistics(); }), ErrorCode::kShutDown);
}

TEST(Switch, PoolsHaveAMemoryLimitThatRemovedJobsGiveBack) {
  SoftwareSwitch software_switch({.ports = {}, .threads = 2});
  const auto with_slots = [](std::uint32_t job, std::uint32_t slots) {
    return JobSpec{
        .job = job,
        .secret = 1,
        .shape = JobShape({.devices = 2, .workers = 2, .slots = slots, .block_size = 16'000, .blocks_per_chunk = 1})};
  };
  const auto code_of = [&](const JobSpec& job) {
    try {
      software_switch.add_job(job);
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("MiB left for pools"), std::string::npos) << error.what();
      return error.status().code;
    }
    return ErrorCode::kOk;
  };
  EXPECT_EQ(code_of(with_slots(50, kMaxSlots)), ErrorCode::kJobRejected);
  EXPECT_EQ(code_of(with_slots(50, 819)), ErrorCode::kOk) << "half of the limit";
  EXPECT_EQ(code_of(with_slots(51, 880)), ErrorCode::kJobRejected) << "a little more than the other half";
  EXPECT_EQ(software_switch.statistics().jobs.size(), 1u);
  software_switch.remove_job(50);
  EXPECT_EQ(code_of(with_slots(51, 880)), ErrorCode::kOk);
}

TEST(Switch, PartsThatNoJobHasAreRefused) {
  SoftwareSwitch software_switch({.ports = {}, .threads = 2});
  // Twice 2^31 is 0 in 32 bits. One switch has the last part of 2^32 - 1.
  for (const Shard& part : {Shard{0, 0}, Shard{3, 3}, Shard{0, kMaxSlots + 1}, Shard{0, 1u << 31},
                            Shard{0, ~std::uint32_t{0}}, Shard{~std::uint32_t{0} - 1, ~std::uint32_t{0}}}) {
    try {
      software_switch.add_job(job_of(2), part);
      ADD_FAILURE() << part.index << " of " << part.of << " was taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.status().code, ErrorCode::kInvalidArgument);
    }
  }
  software_switch.add_job(job_of(2), {kMaxSlots - 1, kMaxSlots});
}

TEST(Switch, CommandsFromManyThreadsWhileDataFlows) {
  constexpr std::uint32_t n = 2;
  SoftwareSwitch software_switch({.ports = {}, .threads = 2});
  const JobSpec job = job_of(n);
  software_switch.add_job(job);
  FloatSum sum(n, 1'000'000, 3);
  std::atomic<bool> done = false;
  std::vector<std::thread> commanders;
  for (std::uint32_t c = 0; c < 2; ++c) {
    commanders.emplace_back([&, c] {
      for (int i = 0; !done && i < 1000; ++i) {
        software_switch.add_job(job_of(4, 100 + c));
        software_switch.statistics();
        software_switch.missing(job.job);
        software_switch.remove_job(100 + c);
      }
    });
  }
  with_workers(configs_for(job, software_switch.ports()), [&](std::uint32_t w, Endpoint& endpoint) {
    sum.submit(w, endpoint);
    EXPECT_TRUE(run_to_end(endpoint).ok());
  });
  done = true;
  for (std::thread& t : commanders) t.join();
  sum.expect_exact();
}

}  // namespace
}  // namespace jaxina
