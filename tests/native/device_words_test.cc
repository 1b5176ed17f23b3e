// Tests where a device's words lie on their way. A device writes messages and reads results in the transport's own
// memory where that is possible. What is sent is the same, byte for byte, as for tensors in host memory.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <map>
#include <utility>

#include "tests/native/device_transports.h"

namespace jaxina {
namespace {

using testing::FakeDevice;
using testing::WordsMoved;
using namespace testing::nodes;

constexpr std::uint64_t kNone = 0;

// What one sum of all types did: the words that each device moved, and the words that each process staged.
struct Outcome {
  std::vector<WordsMoved> moved;
  std::vector<std::uint64_t> staged;
};

// Sums on devices and compares the bits with sums on hosts. The first `refusing` devices refuse to share memory.
Outcome sum_and_compare(const std::vector<GroupConfig>& configs, bool finite, std::size_t refusing = 0) {
  constexpr std::size_t count = 2000;
  std::vector<Operands> mine = operands(configs.front().member.shape.devices(), count, 21 + finite, finite);
  const Operands expected = flat(mine, count);
  Outcome result;
  std::vector<Resident> devices = on_devices(mine, true);
  for (std::size_t d = 0; d < refusing; ++d) devices[d].device->refuse_to_share();
  Cluster cluster(configs);
  sum_residents(cluster, devices, mine, count);
  expect_equal(mine, expected, count);
  for (Resident& resident : devices) result.moved.push_back(resident.device->words_moved());
  for (std::size_t w = 0; w < configs.size(); ++w) {
    result.staged.push_back(cluster.node(w).statistics()[Counter::kStagedWords]);
  }
  return result;
}

// Flags are rare, so the processor adds them.
TEST(DeviceWords, InSharedMemoryOneDeviceAddsItsWordsInTheSlots) {
  for (const Processes& processes : {Processes{1, 1}, Processes{1, 1, 1, 1}}) {
    for (const bool finite : {true, false}) {
      const Outcome result = sum_and_compare(configs_for(processes), finite);
      for (std::size_t w = 0; w < processes.size(); ++w) {
        const WordsMoved& words = result.moved[w];
        EXPECT_EQ(words.read_allocated, kNone);
        EXPECT_GT(words.read_shared, kNone);
        EXPECT_EQ(words.written_shared + words.written_allocated, words.read_shared);
        EXPECT_GT(words.written_shared, words.written_allocated);
        EXPECT_EQ(words.written_allocated == 0, finite);
        EXPECT_EQ(result.staged[w] == 0, finite);
      }
    }
  }
}

TEST(DeviceWords, InSharedMemorySeveralDevicesOfAProcessStageTheirWords) {
  for (const bool finite : {true, false}) {
    const Outcome result = sum_and_compare(configs_for({1, 2}), finite);
    for (std::size_t d = 1; d < 3; ++d) {
      const WordsMoved& words = result.moved[d];
      EXPECT_EQ(words.read_allocated, kNone);
      EXPECT_GT(words.read_shared, kNone);
      EXPECT_EQ(words.written_shared, kNone);
      EXPECT_EQ(words.written_allocated, words.read_shared);
    }
    EXPECT_GT(result.staged[1], kNone);
    EXPECT_EQ(result.staged[0] == 0, finite);  // the other process has one device
  }
}

TEST(DeviceWords, OneDeviceWritesItsMessagesAndReadsResultsInPlace) {
  for (const double loss : {0.0, 0.02}) {
    const Processes processes{1, 1};
    RoceSwitch roce_switch({.port = 0, .loss = loss, .loss_seed = 3});
    roce_switch.add_job(job_for(processes, true));
    const Outcome result = sum_and_compare(roce_configs(processes, roce_switch, loss), false);
    for (std::size_t w = 0; w < 2; ++w) {
      EXPECT_EQ(result.moved[w].read_allocated, kNone);
      EXPECT_EQ(result.moved[w].written_allocated, kNone);
      EXPECT_GT(result.moved[w].read_shared, kNone);
      EXPECT_EQ(result.moved[w].written_shared, result.moved[w].read_shared);
      EXPECT_EQ(result.staged[w], kNone);
    }
    if (loss > 0) {
      EXPECT_GT(roce_switch.statistics().sockets[Counter::kPacketsDropped], kNone);
    }
  }
}

TEST(DeviceWords, ResultsThatCarryACheckAreReadFromStaging) {
  const Processes processes{1, 1};
  RoceSwitch roce_switch({.port = 0});
  roce_switch.add_job(job_for(processes));
  const Outcome result = sum_and_compare(roce_configs(processes, roce_switch, 0, false), false);
  for (std::size_t w = 0; w < 2; ++w) {
    EXPECT_EQ(result.moved[w].read_shared, kNone);
    EXPECT_GT(result.moved[w].read_allocated, kNone);
    EXPECT_GT(result.moved[w].written_shared, kNone) << "messages are written in place all the same";
    EXPECT_EQ(result.moved[w].written_allocated, kNone);
    EXPECT_GE(result.staged[w], result.moved[w].read_allocated) << "no result without a copy";
  }
}

TEST(DeviceWords, MessagesOfSeveralDevicesAreSummedFromStaging) {
  const Processes processes{1, 2};
  RoceSwitch roce_switch({.port = 0});
  roce_switch.add_job(job_for(processes, true));
  const Outcome result = sum_and_compare(roce_configs(processes, roce_switch), false);
  EXPECT_GT(result.moved[0].written_shared, kNone);
  EXPECT_EQ(result.moved[0].written_allocated, kNone);
  for (std::size_t d = 1; d < 3; ++d) {
    EXPECT_EQ(result.moved[d].written_shared, kNone);
    EXPECT_GT(result.moved[d].written_allocated, kNone);
    EXPECT_EQ(result.moved[d].read_allocated, kNone);
    EXPECT_GT(result.moved[d].read_shared, kNone);
  }
  EXPECT_EQ(result.staged[0], kNone);
  EXPECT_GT(result.staged[1], kNone);
}

TEST(DeviceWords, DatagramsAreStaged) {
  const Processes processes{1, 1};
  SoftwareSwitch software_switch({.ports = {}, .threads = 1});
  software_switch.add_job(job_for(processes));
  const Outcome result = sum_and_compare(udp_configs(processes, {software_switch.ports()[0]}), false);
  for (const WordsMoved& words : result.moved) EXPECT_EQ(words.read_shared + words.written_shared, kNone);
  EXPECT_GT(result.staged[0], kNone);
}

TEST(DeviceWords, MemoryThatADeviceCannotReachIsStaged) {
  const Processes processes{1, 1};
  RoceSwitch roce_switch({.port = 0});
  roce_switch.add_job(job_for(processes, true));
  for (const auto& configs : {configs_for(processes), roce_configs(processes, roce_switch)}) {
    const Outcome result = sum_and_compare(configs, false, 1);
    EXPECT_EQ(result.moved[0].read_shared + result.moved[0].written_shared, kNone);
    EXPECT_GT(result.moved[0].read_allocated, kNone);
    EXPECT_GT(result.moved[1].read_shared, kNone);
    EXPECT_GT(result.staged[0], result.staged[1]);
  }
}

// A device may still be reading a sum in its slot when the next collective, of host tensors, asks for that slot.
TEST(DeviceWords, ASumIsReadBeforeHostTensorsTakeItsSlot) {
  constexpr std::size_t kRounds = 40, kCount = 8 * 4 * kBlock;  // every slot once
  Many many(2);
  Cluster cluster(configs_for({1, 1}));
  std::vector<std::vector<float>> host(2 * kRounds, std::vector<float>(4 * kCount));
  std::vector<std::byte*> tensors;
  std::vector<std::future<Status>> done;
  for (std::size_t r = 0; r < kRounds; ++r) {
    for (std::uint32_t d = 0; d < 2; ++d) {
      tensors.push_back(many.tensor(d, kCount, static_cast<float>(r + d)));
      done.push_back(cluster.submit(d, many.collective(d, tensors.back(), kCount)));
      std::vector<float>& mine = host[2 * r + d];
      std::fill(mine.begin(), mine.end(), static_cast<float>(100 * r));
      done.push_back(cluster.submit(d, {{{ElementType::kFloat32, mine.size(), mine.data(), mine.data()}}}));
    }
  }
  for (auto& future : done) {
    const Status status = outcome(future);
    ASSERT_TRUE(status.ok()) << status.text();
  }
  for (std::size_t r = 0; r < kRounds; ++r) {
    for (std::uint32_t d = 0; d < 2; ++d) {
      const std::vector<std::byte> sum = many.devices[d]->read(tensors[2 * r + d], 4 * kCount);
      for (std::size_t i = 0; i < kCount; ++i) {
        float value;
        std::memcpy(&value, &sum[4 * i], 4);
        ASSERT_EQ(value, static_cast<float>(2 * r + 1)) << r << " " << i;
      }
      for (const float value : host[2 * r + d]) ASSERT_EQ(value, static_cast<float>(200 * r));
    }
  }
}

struct Watch {
  bool repeat = false;  // every result comes again and again, as late as the protocol allows
  bool adopt = false;   // messages may have their words in a device's memory
  bool dirty = false;   // the memory that messages are sent from is not zero at first
};

// Queue pairs that record all messages that are sent.
class WatchedPairs final : public roce::QueuePairs {
 public:
  using Messages =
      std::map<std::pair<std::uint64_t, std::uint32_t>, std::vector<std::uint8_t>>;  // by address and immediate

  WatchedPairs(std::unique_ptr<roce::QueuePairs> pairs, const roce::MessageLayout& layout, Watch watch, Messages& sent,
               std::uint64_t& repeated)
      : pairs_(std::move(pairs)),
        layout_(layout),
        watch_(watch),
        sent_(sent),
        repeated_(repeated),
        epochs_(layout.queues()) {
    if (watch.dirty) std::ranges::fill(send_memory(), std::uint8_t{0xa5});
  }
  ~WatchedPairs() override {
    if (view_ != nullptr) munmap(view_, adopted_.bytes);
  }

  const roce::ConnectionEnd& local() const override { return pairs_->local(); }
  void connect(const roce::ConnectionEnd& remote) override { pairs_->connect(remote); }
  std::span<std::uint8_t> send_memory() override { return pairs_->send_memory(); }
  std::span<const std::uint8_t> receive_memory() const override { return pairs_->receive_memory(); }
  // Reaches the memory as a network card does: by the dma-buf, not by the address.
  bool adopt(const std::function<ExportedMemory()>& allocate) override {
    if (!watch_.adopt) return false;
    adopted_ = allocate();
    view_ = static_cast<std::uint8_t*>(mmap(nullptr, adopted_.bytes, PROT_READ, MAP_SHARED, adopted_.dmabuf, 0));
    return true;
  }
  void post_write(std::size_t queue, std::span<const std::uint8_t> head, std::span<const std::uint8_t> tail,
                  std::uint64_t address, std::uint32_t immediate) override {
    epochs_[queue] = roce::pass_at(address).value().epoch;
    const auto* const of_device = reinterpret_cast<const std::uint8_t*>(adopted_.memory.get());
    if (view_ != nullptr && head.data() >= of_device && head.data() < of_device + adopted_.bytes) {
      head = {view_ + (head.data() - of_device), head.size()};
    }
    std::vector<std::uint8_t> message(head.begin(), head.end());
    message.insert(message.end(), tail.begin(), tail.end());
    const auto [known, first] = sent_.try_emplace({address, immediate}, message);
    EXPECT_TRUE(first || message == known->second) << "a pass sent again";
    pairs_->post_write(queue, head, tail, address, immediate);
  }
  Status flush() override { return pairs_->flush(); }
  Status poll(std::vector<Arrival>& arrivals) override {
    // The result four passes later has the same place, so from then on the old result cannot come again.
    std::erase_if(results_, [&](const Came& came) { return epochs_[came.arrival.queue] >= came.epoch + 4; });
    for (const Came& came : results_) {
      auto* place = const_cast<std::uint8_t*>(receive_memory().data()) + came.place;
      std::copy(came.bytes.begin(), came.bytes.end(), place);
      arrivals.push_back(came.arrival);
      ++repeated_;
    }
    const std::size_t before = arrivals.size();
    const Status status = pairs_->poll(arrivals);
    for (std::size_t i = before; watch_.repeat && i < arrivals.size(); ++i) {
      if (arrivals[i].queue == layout_.notices()) continue;
      const std::size_t place = layout_.result_place(arrivals[i].queue, epochs_[arrivals[i].queue]);
      const std::uint8_t* bytes = receive_memory().data() + place;
      results_.push_back({arrivals[i], epochs_[arrivals[i].queue], place, {bytes, bytes + arrivals[i].bytes}});
    }
    return status;
  }
  void wait(Nanoseconds timeout) override { pairs_->wait(timeout); }
  void interrupt() override { pairs_->interrupt(); }
  Status reset(std::size_t queue) override { return pairs_->reset(queue); }
  Counters counters() const override { return pairs_->counters(); }

 private:
  struct Came {
    Arrival arrival;
    std::uint32_t epoch;
    std::size_t place;
    std::vector<std::uint8_t> bytes;
  };
  std::unique_ptr<roce::QueuePairs> pairs_;
  roce::MessageLayout layout_;
  Watch watch_;
  Messages& sent_;
  std::uint64_t& repeated_;
  std::vector<std::uint32_t> epochs_;  // epoch of the latest message on each queue
  std::vector<Came> results_;
  ExportedMemory adopted_;
  std::uint8_t* view_ = nullptr;
};

// One worker alone sums some collectives over roce, with tensors in its own memory or on a device.
struct Alone {
  // Elements of the collectives. The last chunks have different lengths, so they lie where other words were before.
  static constexpr std::size_t kCounts[] = {900, 37, 1, 300};
  WatchedPairs::Messages sent;
  std::uint64_t repeated = 0;
  WordsMoved moved;
  std::vector<Operands> sums;

  Alone(bool on_device, Watch watch, bool whole_chunks, numerics::WireWord word = numerics::WireWord::kInt32,
        numerics::Rounding rounding = {}) {
    for (const std::size_t count : kCounts) {
      for (const bool finite : {true, false}) sums.push_back(operands(1, count, count, finite)[0]);
    }
    RoceSwitch roce_switch({.port = 0});
    const JobSpec job = job_for({1}, whole_chunks);
    roce_switch.add_job(job);
    FakeDevice device(5);
    const auto endpoint = roce::make_rdma_endpoint(
        testing::member_of(job, 0),
        [&](std::size_t queues, std::size_t send, std::size_t receive) {
          auto pairs =
              std::make_unique<roce::SocketQueuePairs>(roce::SocketOptions{.host = "127.0.0.1"}, queues, send, receive);
          const roce::MessageLayout layout(job.shape);
          return std::make_unique<WatchedPairs>(std::move(pairs), layout, watch, sent, repeated);
        },
        [&](const roce::ConnectionEnd& local) { return roce_switch.connect(job.job, 0, local); });
    std::vector<std::byte*> tensors;
    for (Operands& mine : sums) {
      Collective collective = mine.collective(mine.in[0].size() / size_of(kTypes[0]), true);
      for (Tensor& tensor : collective.tensors) {
        if (!on_device) continue;
        const std::size_t bytes = tensor.count * size_of(tensor.type);
        tensors.push_back(device.tensor(bytes));
        const auto* values = static_cast<const std::byte*>(tensor.in);
        device.write(tensors.back(), {values, values + bytes});
        tensor.in = tensor.out = tensors.back();
        collective.device = &device;
      }
      endpoint->worker().submit(narrowed(std::move(collective), word, rounding));
    }
    const Status status = testing::run_to_end(*endpoint);
    EXPECT_TRUE(status.ok()) << status.text();
    EXPECT_TRUE(endpoint->worker().device_failure().ok()) << endpoint->worker().device_failure().text();
    // A result with a check is copied before a device reads it.
    EXPECT_EQ(endpoint->worker().staged_words() > 0, on_device && !whole_chunks);
    std::size_t next = 0;
    for (Operands& mine : sums) {
      for (Bytes& out : mine.out) {
        if (on_device) out = device.read(tensors[next++], out.size());
      }
    }
    moved = device.words_moved();
  }
};

TEST(DeviceWords, MessagesEqualThoseOfHostTensorsByteForByte) {
  for (const bool whole_chunks : {false, true}) {
    const Alone host(false, {}, whole_chunks), device(true, {}, whole_chunks),
        exporting(true, {.adopt = true}, whole_chunks);
    const Alone dirty(false, {.dirty = true}, whole_chunks), dirty_device(true, {.dirty = true}, whole_chunks);
    EXPECT_GT(host.sent.size(), 100u);
    EXPECT_EQ(dirty.sent, host.sent);
    EXPECT_EQ(dirty_device.sent, host.sent);
    EXPECT_EQ(device.sent, host.sent);
    EXPECT_GT(device.moved.written_shared, kNone);
    EXPECT_EQ(device.moved.written_allocated + device.moved.written_exported, kNone);
    EXPECT_EQ(exporting.sent, host.sent);
    // To write a check, the processor must read the words. So with checks they do not stay in the device's own memory.
    const std::uint64_t exported = exporting.moved.written_exported, shared = exporting.moved.written_shared;
    EXPECT_GT(whole_chunks ? exported : shared, kNone);
    EXPECT_EQ(whole_chunks ? shared : exported, kNone);
    EXPECT_EQ(exporting.moved.written_allocated, kNone);
  }
}

TEST(DeviceWords, MessagesWithNarrowWordsEqualThoseOfHostTensorsByteForByte) {
  for (const numerics::WireWord word : {numerics::WireWord::kInt16, numerics::WireWord::kInt8}) {
    for (const numerics::Rounding rounding : {numerics::Rounding{}, numerics::Rounding{true, 99}}) {
      const Alone host(false, {}, false, word, rounding), device(true, {}, false, word, rounding),
          dirty_device(true, {.dirty = true}, false, word, rounding),
          repeated(true, {.repeat = true}, false, word, rounding);
      EXPECT_GT(host.sent.size(), 50u);
      EXPECT_EQ(device.sent, host.sent);
      EXPECT_EQ(dirty_device.sent, host.sent);
      EXPECT_GT(device.moved.written_shared, kNone);
      EXPECT_EQ(device.moved.written_allocated, kNone);
      EXPECT_GT(repeated.repeated, 50u);
      for (std::size_t i = 0; i < host.sums.size(); ++i) {
        const std::size_t count = host.sums[i].in[0].size() / size_of(kTypes[0]);
        expect_equal({device.sums[i], repeated.sums[i]}, host.sums[i], count);
      }
    }
  }
}

TEST(DeviceWords, LateCopiesOfAResultThatADeviceReadsChangeNothing) {
  for (const bool whole_chunks : {false, true}) {
    const Alone host(false, {}, whole_chunks), device(true, {.repeat = true}, whole_chunks);
    EXPECT_GT(device.repeated, 100u);
    for (std::size_t i = 0; i < host.sums.size(); ++i) {
      expect_equal({device.sums[i]}, host.sums[i], host.sums[i].in[0].size() / size_of(kTypes[0]));
    }
  }
}

}  // namespace
}  // namespace jaxina
