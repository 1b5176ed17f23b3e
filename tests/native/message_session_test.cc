// Tests a worker's session over RDMA messages with an aggregator, in memory. A late copy of a result may be written
// over a newer result before the worker has read that one.
#include "rdma_engine/messages/message_session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "rdma_engine/aggregator/aggregator.h"
#include "rdma_engine/messages/result_check.h"
#include "tests/native/reference.h"
#include "tests/native/small_shape.h"

namespace jaxina::roce {
namespace {

using Kind = MessageSession::Kind;
using Bytes = std::vector<std::uint8_t>;

constexpr std::uint32_t kWorkers = 2, kBlock = 8;
constexpr std::size_t kElements = 300;  // in chunks of 16 words over two slots: ten passes of each slot
constexpr Nanoseconds kSecond = 1'000'000'000;

JobShape shape_of(bool checked) {
  const testing::SmallShape shape{.slots = 2, .block_size = kBlock, .blocks_per_chunk = 2, .whole_chunks = !checked};
  return shape.of(kWorkers);
}

// Queue pairs whose messages the test delivers.
class MemoryPairs final : public QueuePairs {
 public:
  struct Message {
    std::size_t queue;
    std::uint64_t address;
    std::uint32_t immediate;
    Bytes bytes;
  };

  explicit MemoryPairs(const MessageLayout& layout)
      : send_(layout.queues() * layout.stride() / 4), receive_((layout.receive_bytes() + 3) / 4) {}

  std::vector<Message> take() { return std::exchange(posted_, {}); }
  // The memory that the peer writes.
  std::uint8_t* memory() { return reinterpret_cast<std::uint8_t*>(receive_.data()); }
  int resets() const { return resets_; }

  const ConnectionEnd& local() const override { return local_; }
  void connect(const ConnectionEnd&) override {}
  std::span<std::uint8_t> send_memory() override {
    return {reinterpret_cast<std::uint8_t*>(send_.data()), 4 * send_.size()};
  }
  std::span<const std::uint8_t> receive_memory() const override {
    return {reinterpret_cast<const std::uint8_t*>(receive_.data()), 4 * receive_.size()};
  }
  bool adopt(const std::function<ExportedMemory()>&) override { return false; }
  void post_write(std::size_t queue, std::span<const std::uint8_t> head, std::span<const std::uint8_t> tail,
                  std::uint64_t address, std::uint32_t immediate) override {
    posted_.push_back({queue, address, immediate, Bytes(head.begin(), head.end())});
    posted_.back().bytes.insert(posted_.back().bytes.end(), tail.begin(), tail.end());
  }
  Status flush() override { return {}; }
  Status poll(std::vector<Arrival>&) override { return {}; }
  void wait(Nanoseconds) override {}
  void interrupt() override {}
  Status reset(std::size_t) override { return ++resets_, Status(); }
  Counters counters() const override { return {}; }

 private:
  ConnectionEnd local_;
  std::vector<std::uint32_t> send_, receive_;
  std::vector<Message> posted_;
  int resets_ = 0;
};

// The workers and the aggregator of a job. Every result arrives as soon as it is complete. `before_reading` is called
// before the worker reads it.
class Job {
 public:
  // The place of a result in a worker's memory, and the result that was there before, if that had the same size.
  struct Place {
    std::uint32_t worker, slot, epoch;
    std::span<std::uint8_t> newer;
    const Bytes* older;
  };
  using BeforeReading = std::function<void(const Place&)>;

  explicit Job(bool checked)
      : shape(shape_of(checked)),
        layout(shape),
        aggregator(shape, checked ? AggregatorOptions{.extra_words = kCheckWords, .seal = ResultCheck::seal}
                                  : AggregatorOptions{}) {
    for (std::uint32_t w = 0; w < kWorkers; ++w) {
      pairs.push_back(std::make_unique<MemoryPairs>(layout));
      sessions.push_back(std::make_unique<MessageSession>(
          MessageSessionConfig{.shape = shape, .job = 1, .secret = 2, .timer = {}}, *pairs.back()));
    }
  }

  // Runs until all is summed or the workers disagree, but for at most a hundred timeouts.
  void run(const BeforeReading& before_reading) {
    const auto busy = [&] {
      return std::any_of(sessions.begin(), sessions.end(),
                         [](auto& s) { return s->worker().pop_completed(), !s->worker().idle(); });
    };
    for (int timeouts = 0; busy() && !mismatch && timeouts < 100; ++timeouts) {
      now += 10 * kSecond;
      for (auto& session : sessions) session->worker().on_tick(now);
      while (round(before_reading)) {
      }
    }
  }

  const JobShape shape;
  const MessageLayout layout;
  Aggregator aggregator;
  std::vector<std::unique_ptr<MemoryPairs>> pairs;
  std::vector<std::unique_ptr<MessageSession>> sessions;
  std::size_t accepted = 0, rejected = 0;
  bool mismatch = false;
  Nanoseconds now = 0;

 private:
  bool round(const BeforeReading& before_reading) {
    bool moved = false;
    for (std::uint32_t w = 0; w < kWorkers; ++w) {
      for (std::optional<Pass> posted;;) {
        EXPECT_TRUE(sessions[w]->post_next(now, posted).ok());
        if (!posted) break;
        moved = true;
      }
      for (const MemoryPairs::Message& message : pairs[w]->take()) deliver(w, message);
    }
    for (const auto& [worker, arrival] : std::exchange(arrivals_, {})) arrive(worker, arrival, before_reading);
    return moved;
  }

  void deliver(std::uint32_t worker, const MemoryPairs::Message& message) {
    const PassName pass = *pass_at(message.address);
    const std::size_t words = (message.bytes.size() - wire::padded(pass.exponents)) / 4;
    const Answer answer = aggregator.on_update({worker,
                                                pass.slot,
                                                pass.epoch,
                                                message.immediate,
                                                {reinterpret_cast<const std::uint32_t*>(message.bytes.data()), words},
                                                {message.bytes.data() + 4 * words, pass.exponents}});
    mismatch = mismatch || answer.effect == Effect::kMismatch;
    if (answer.effect == Effect::kCompleted) {
      for (std::uint32_t w = 0; w < kWorkers; ++w) arrivals_.push_back({w, answer.result});
    }
    if (answer.effect == Effect::kResultAgain) arrivals_.push_back({worker, answer.result});
  }

  void arrive(std::uint32_t worker, const ResultView& result, const BeforeReading& before_reading) {
    const std::size_t place = layout.result_place(result.slot, result.epoch);
    const std::size_t tail = wire::padded(result.exponents.size());
    const std::span<std::uint8_t> newer(pairs[worker]->memory() + place, result.words.size_bytes() + tail);
    std::memcpy(newer.data(), result.words.data(), result.words.size_bytes());
    std::memcpy(newer.data() + result.words.size_bytes(), result.exponents.data(), tail);
    Bytes& known = known_[{worker, place}];
    const Bytes sound(newer.begin(), newer.end());
    if (before_reading) {
      before_reading({worker, result.slot, result.epoch, newer, known.size() == sound.size() ? &known : nullptr});
    }
    const Kind kind = sessions[worker]->on_arrival({result.slot, result.fingerprint, newer.size()}, now).kind;
    EXPECT_TRUE(kind == Kind::kResult || kind == Kind::kRejected);
    ++(kind == Kind::kResult ? accepted : rejected);
    if (kind == Kind::kResult) known = sound;
  }

  std::vector<std::pair<std::uint32_t, ResultView>> arrivals_;
  std::map<std::pair<std::uint32_t, std::size_t>, Bytes> known_;  // by worker and place
};

struct Integers {
  explicit Integers(std::uint64_t seed)
      : in(kWorkers), out(kWorkers, std::vector<std::uint32_t>(kElements)), sum(kElements) {
    std::mt19937_64 random(seed);
    for (auto& mine : in) {
      for (std::size_t i = 0; i < kElements; ++i) sum[i] += mine.emplace_back(static_cast<std::uint32_t>(random()));
    }
  }
  void submit(Job& job) {
    for (std::uint32_t w = 0; w < kWorkers; ++w) {
      job.sessions[w]->worker().submit({{{ElementType::kInt32, kElements, in[w].data(), out[w].data()}}});
    }
  }
  bool exact() const {
    return std::all_of(out.begin(), out.end(), [&](const auto& mine) { return mine == sum; });
  }
  std::vector<std::vector<std::uint32_t>> in, out;
  std::vector<std::uint32_t> sum;
};

bool all_idle(const Job& job) {
  return std::all_of(job.sessions.begin(), job.sessions.end(), [](const auto& s) { return s->worker().idle(); });
}

TEST(MessageSession, SumsAreExactWithAndWithoutChecks) {
  for (const bool checked : {false, true}) {
    Job job(checked);
    Integers integers(1);
    integers.submit(job);
    std::vector<std::vector<float>> in, out(kWorkers, std::vector<float>(kElements));
    for (std::uint32_t w = 0; w < kWorkers; ++w) {
      in.push_back(testing::random_gradient(kElements, 5 + w));
      job.sessions[w]->worker().submit({{{ElementType::kFloat32, kElements, in[w].data(), out[w].data()}}});
    }
    job.run({});
    ASSERT_TRUE(all_idle(job));
    EXPECT_EQ(job.rejected, 0u);
    EXPECT_TRUE(integers.exact());
    const std::vector<float> expected = testing::all_reduce_reference(in, kBlock);
    for (const auto& mine : out) {
      for (std::size_t i = 0; i < kElements; ++i) ASSERT_TRUE(testing::same(mine[i], expected[i])) << i;
    }
  }
}

// The part of a result's bytes that the late copy overwrites.
using Range = std::pair<std::size_t, std::size_t>;
struct Part {
  const char* name;
  Range (*of)(std::size_t words_bytes, std::size_t all_bytes);
};
constexpr Part kParts[] = {
    {"whole", [](std::size_t, std::size_t all) { return Range(0, all); }},
    {"first half", [](std::size_t words, std::size_t) { return Range(0, words / 2); }},
    {"second half", [](std::size_t words, std::size_t) { return Range(words / 2, words); }},
    {"one word", [](std::size_t words, std::size_t) { return Range(words - 8, words - 4); }},
};

// Writes a late copy for every worker, once for each pass whose place held an older result of the same size.
struct LateCopies {
  const Part& part;
  const MessageLayout& layout;
  std::set<std::pair<std::uint32_t, std::uint64_t>> done = {};

  void operator()(const Job::Place& place) {
    const std::uint64_t pass = std::uint64_t{place.epoch} << 16 | place.slot;
    if (place.older == nullptr || !done.insert({place.worker, pass}).second) return;
    const std::size_t all = place.newer.size();
    const auto [from, to] = part.of(all - 4 * layout.check_words(), all);
    std::copy(place.older->begin() + static_cast<std::ptrdiff_t>(from),
              place.older->begin() + static_cast<std::ptrdiff_t>(to),
              place.newer.begin() + static_cast<std::ptrdiff_t>(from));
  }
};

TEST(MessageSession, ALateCopyOverANewerResultIsNotTakenAndTheWorkerAsksAgain) {
  for (const Part& part : kParts) {
    SCOPED_TRACE(part.name);
    Job job(true);
    Integers integers(2);
    integers.submit(job);
    LateCopies copies{part, job.layout};
    job.run(std::ref(copies));
    ASSERT_TRUE(all_idle(job));
    EXPECT_TRUE(integers.exact());
    EXPECT_GE(copies.done.size(), 10u);
    EXPECT_EQ(job.rejected, copies.done.size()) << "each copy was noticed, and nothing else was refused";
    std::uint64_t again = 0;
    for (const auto& session : job.sessions) again += session->worker().retransmissions();
    EXPECT_GE(again, copies.done.size());
  }
}

// Shows what the checks are for: without them, the same late copies make wrong sums.
TEST(MessageSession, WithoutCheckWordsTheSameCopyIsAWrongSum) {
  for (const Part& part : kParts) {
    SCOPED_TRACE(part.name);
    Job job(false);
    Integers integers(2);
    integers.submit(job);
    LateCopies copies{part, job.layout};
    job.run(std::ref(copies));
    ASSERT_TRUE(all_idle(job));
    EXPECT_EQ(job.rejected, 0u);
    EXPECT_FALSE(integers.exact());
  }
}

// Without checks, a worker that quantizes with other exponents than the rest has another fingerprint in its next pass.
TEST(MessageSession, ALateCopyOfExponentsIsNotTakenOrIsAnErrorWithoutChecks) {
  for (const bool checked : {true, false}) {
    Job job(checked);
    std::vector<std::vector<float>> in, out(kWorkers, std::vector<float>(kElements, 1e30f));
    for (std::uint32_t w = 0; w < kWorkers; ++w) {
      in.push_back(testing::random_gradient(kElements, 5 + w));
      for (std::size_t i = 0; i < kElements; ++i) in[w][i] *= static_cast<float>(1u << i / 40);  // exponents grow
      job.sessions[w]->worker().submit({{{ElementType::kFloat32, kElements, in[w].data(), out[w].data()}}});
    }
    bool copied = false;
    job.run([&](const Job::Place& place) {
      if (copied || place.worker != 0 || place.older == nullptr) return;
      const auto tail = static_cast<std::ptrdiff_t>(wire::padded(job.shape.blocks_per_chunk()));
      copied = !std::equal(place.older->end() - tail, place.older->end(), place.newer.end() - tail);
      std::copy(place.older->end() - tail, place.older->end(), place.newer.end() - tail);
    });
    ASSERT_TRUE(copied);
    EXPECT_EQ(job.mismatch, !checked);
    EXPECT_EQ(job.rejected, checked ? 1u : 0u);
    for (const auto& session : job.sessions) EXPECT_EQ(session->worker().idle(), checked);
    if (!checked) continue;
    const std::vector<float> expected = testing::all_reduce_reference(in, kBlock);
    for (const auto& mine : out) {
      for (std::size_t i = 0; i < kElements; ++i) ASSERT_TRUE(testing::same(mine[i], expected[i])) << i;
    }
  }
}

// A result that is damaged in every copy is never taken, and the worker never stops asking for it.
TEST(MessageSession, AResultThatIsAlwaysDamagedIsNeverTaken) {
  Job job(true);
  Integers integers(3);
  integers.submit(job);
  job.run([&](const Job::Place& place) { place.newer[5] ^= 1; });
  EXPECT_EQ(job.accepted, 0u);
  EXPECT_GT(job.rejected, 8u);
  EXPECT_GT(job.pairs[0]->resets(), 0) << "asked in vain, the session suspects its queue pair";
  EXPECT_FALSE(all_idle(job));
}

TEST(MessageSession, NoticesOfOtherJobsAndPlacesAreRejected) {
  Job job(true);
  const auto put = [&](const Notice& notice, std::size_t place) {
    std::memcpy(job.pairs[0]->memory() + place, notice.bytes.data(), notice.size);
  };
  const auto arrive = [&](const Notice& notice, std::uint32_t immediate) {
    return job.sessions[0]->on_arrival({job.layout.notices(), immediate, notice.size}, 0);
  };
  const Status reason{ErrorCode::kWorkerLost, "worker 1 died"};
  const Notice mine = aborted_notice(1, 2, 0, reason), other_job = aborted_notice(9, 2, 0, reason);
  const Notice other_secret = aborted_notice(1, 3, 0, reason), other_slot = aborted_notice(1, 2, 2, reason);
  for (const Notice* notice : {&other_job, &other_secret, &other_slot}) {
    put(*notice, job.layout.last_notice_place());
    EXPECT_EQ(arrive(*notice, MessageLayout::kLastNotice).kind, Kind::kRejected);
  }
  put(mine, job.layout.last_notice_place());
  EXPECT_EQ(arrive(mine, 2).kind, Kind::kRejected) << "there is no slot 2";
  EXPECT_EQ(arrive(mine, MessageLayout::kLastNotice + 1).kind, Kind::kRejected);
  const MessageSession::Arrived arrived = arrive(mine, MessageLayout::kLastNotice);
  ASSERT_EQ(arrived.kind, Kind::kAborted);
  EXPECT_EQ(std::string(arrived.payload.begin(), arrived.payload.end()), "worker 1 died");
  EXPECT_EQ(arrived.header.code, static_cast<std::uint8_t>(ErrorCode::kWorkerLost));
}

}  // namespace
}  // namespace jaxina::roce
