// A fake device that behaves towards the worker as a GPU does. A thread works batches off in their order, late, with
// the GPU's kernels (emulated_kernels.cc). Only the device can read its tensors: everybody else has addresses whose
// access ends the process. The device reads and writes words and exponents only in memory that it was told of.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <random>
#include <span>
#include <thread>
#include <vector>

#include "rdma_engine/worker/tensor_device.h"
#include "tests/native/reachable_memory.h"
#include "xla_ffi/gpu/device_tasks.h"

namespace jaxina::testing {

// How many words a device has moved, by where they lay: in memory that it allocated, in memory that was shared with it,
// or in its own memory, which it exported.
struct WordsMoved {
  std::uint64_t read_allocated = 0, read_shared = 0, written_allocated = 0, written_shared = 0, written_exported = 0;
};

class FakeDevice final : public TensorDevice {
 public:
  static constexpr std::size_t kMemory = std::size_t{64} << 20;

  explicit FakeDevice(std::uint64_t seed) : random_(seed) {
    const int file = memfd_create("fake-device", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, kMemory) != 0) throw std::bad_alloc();
    forbidden_ = map(PROT_NONE, file);
    memory_ = map(PROT_READ | PROT_WRITE, file);
    close(file);
    thread_ = std::thread([this] { run(); });
  }
  ~FakeDevice() override {
    {
      const std::lock_guard guard(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
    munmap(forbidden_, kMemory);
    munmap(memory_, kMemory);
  }

  // Allocates memory for a tensor and returns its address on the device.
  std::byte* tensor(std::size_t bytes) {
    std::byte* const address = forbidden_ + used_;
    used_ += (bytes + 63) / 64 * 64;
    if (used_ > kMemory) throw std::bad_alloc();
    return address;
  }
  void write(std::byte* tensor, const std::vector<std::byte>& bytes) {
    std::copy(bytes.begin(), bytes.end(), reach(tensor));
  }
  std::vector<std::byte> read(std::byte* tensor, std::size_t bytes) { return {reach(tensor), reach(tensor) + bytes}; }

  // Makes every batch from this number on fail.
  void fail_from(std::uint64_t ticket) {
    const std::lock_guard guard(mutex_);
    fails_from_ = ticket;
  }
  // Keeps all batches waiting until release(), or those from this number on.
  void hold(std::uint64_t from = 1) {
    const std::lock_guard guard(mutex_);
    held_from_ = from;
  }
  void release() {
    {
      const std::lock_guard guard(mutex_);
      held_from_ = kNever;
    }
    changed_.notify_all();
  }
  std::uint64_t batches() {
    const std::lock_guard guard(mutex_);
    return started_;
  }
  std::size_t most_tasks() {
    const std::lock_guard guard(mutex_);
    return most_tasks_;
  }
  WordsMoved words_moved() {
    const std::lock_guard guard(mutex_);
    return moved_;
  }
  void refuse_to_share() { shares_ = false; }

  DeviceMemory allocate(std::size_t bytes) override {
    auto* const memory = new std::byte[bytes]();
    ReachableMemory::instance().add(memory, bytes, ReachableMemory::Kind::kAllocated);
    return {memory, [](std::byte* address) {
              ReachableMemory::instance().remove(address);
              delete[] address;
            }};
  }
  DeviceMemory share(std::span<const std::byte> memory) override {
    if (!shares_) throw Error(ErrorCode::kGpu, "the fake device shares nothing");
    if (!ReachableMemory::instance().add(memory.data(), memory.size(), ReachableMemory::Kind::kShared)) {
      throw Error(ErrorCode::kGpu, "a page of this memory is shared already");
    }
    return {const_cast<std::byte*>(memory.data()),
            [](std::byte* address) { ReachableMemory::instance().remove(address); }};
  }
  // A file stands for the dma-buf. The memory is at its start.
  ExportedMemory allocate_exported(std::size_t bytes) override {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    used_ = (used_ + page - 1) / page * page;
    std::byte* const address = tensor(bytes);
    const int file = memfd_create("fake-export", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) throw std::bad_alloc();
    // Only the device's own mapping can be accessed, as with tensors.
    if (mmap(reach(address), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED)
      throw std::bad_alloc();
    ReachableMemory::instance().add(address, bytes, ReachableMemory::Kind::kExported);
    return {{address,
             [file](std::byte* memory) {
               ReachableMemory::instance().remove(memory);
               close(file);
             }},
            bytes,
            file};
  }
  Status start(const DeviceFormat& format, std::span<const DeviceTask> tasks, std::uint64_t& ticket) override {
    const std::lock_guard guard(mutex_);
    for (const DeviceTask& task : tasks) {
      if (Status status = note(format, task); !status.ok()) return status;
    }
    queue_.push_back({format, {tasks.begin(), tasks.end()}});
    most_tasks_ = std::max(most_tasks_, tasks.size());
    ticket = ++started_;
    changed_.notify_all();
    return {};
  }
  Status is_done(std::uint64_t ticket, bool& done) override {
    const std::lock_guard guard(mutex_);
    done = done_ >= ticket;
    if (done && ticket >= fails_from_) return {ErrorCode::kSystem, "the fake device failed"};
    return done ? disturbed_ : Status();
  }
  void wait(std::uint64_t ticket) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_ >= ticket; });
  }

 private:
  struct Batch {
    DeviceFormat format;
    std::vector<DeviceTask> tasks;
  };

  // The words of a sum in shared memory, as they were when the batch began.
  struct Seen {
    const volatile std::uint32_t* words;
    std::vector<std::uint32_t> then;
  };

  static bool reads_words(DeviceWork work) { return work <= DeviceWork::kDivideKeeping; }
  static std::size_t blocks_of(const DeviceFormat& format, const DeviceTask& task) {
    const std::size_t per_block = format.block_size / numerics::element_codec(task.type).words;
    return (task.elements + per_block - 1) / per_block;
  }
  static std::size_t words_of(const DeviceFormat& format, const DeviceTask& task) {
    const std::size_t words = numerics::element_codec(task.type).words, whole = blocks_of(format, task) - 1;
    const std::size_t count = whole * format.block_size + (task.elements - whole * (format.block_size / words)) * words;
    switch (task.work) {
      case DeviceWork::kEncode:
      case DeviceWork::kEncodeAdding:
      case DeviceWork::kDecode:
      case DeviceWork::kDecodeKeeping: return numerics::packed_size(count, task.word);
      case DeviceWork::kFlags:
      case DeviceWork::kApplyFlags:
      case DeviceWork::kApplyFlagsClearing:
        if (task.word == numerics::WireWord::kInt32) return count;
        return blocks_of(format, task) * numerics::packed_flags_size(format.block_size);
      default: return count;
    }
  }

  Status note(const DeviceFormat& format, const DeviceTask& task) {
    ReachableMemory& reachable = ReachableMemory::instance();
    if (task.words != nullptr) {
      const std::size_t words = words_of(format, task);
      const auto kind = reachable.find(task.words, 4 * words);
      if (!kind) return {ErrorCode::kGpu, "words in memory that no device reaches"};
      const bool shared = *kind == ReachableMemory::Kind::kShared;
      if (reads_words(task.work)) (shared ? moved_.read_shared : moved_.read_allocated) += words;
      else if (*kind == ReachableMemory::Kind::kExported) moved_.written_exported += words;
      else (shared ? moved_.written_shared : moved_.written_allocated) += words;
    }
    if (task.exponents != nullptr && !reachable.find(task.exponents, blocks_of(format, task))) {
      return {ErrorCode::kGpu, "exponents in memory that no device reaches"};
    }
    return {};
  }

  // Reads as hardware does. Another writer, such as a network card, may write the same bytes meanwhile; that is not a
  // race to report. When the batch ends, the caller checks that nobody has written other bytes.
  [[gnu::no_sanitize("thread"), gnu::noinline]] static void look(const volatile std::uint32_t* words, std::size_t count,
                                                                 std::uint32_t* seen) {
    for (std::size_t i = 0; i < count; ++i) seen[i] = words[i];
  }
  // Copies the words of sums that lie in shared memory, and makes the tasks read the copies.
  std::vector<Seen> see_sums(Batch& batch) {
    std::vector<Seen> all;
    all.reserve(batch.tasks.size());
    for (DeviceTask& task : batch.tasks) {
      if (task.words == nullptr || !reads_words(task.work)) continue;
      const std::size_t words = words_of(batch.format, task);
      if (ReachableMemory::instance().find(task.words, 4 * words) != ReachableMemory::Kind::kShared) continue;
      Seen& seen = all.emplace_back(Seen{task.words, std::vector<std::uint32_t>(words)});
      look(seen.words, words, seen.then.data());
      task.words = seen.then.data();
    }
    return all;
  }
  static bool same_still(const std::vector<Seen>& all) {
    return std::all_of(all.begin(), all.end(), [](const Seen& seen) {
      std::vector<std::uint32_t> now(seen.then.size());
      look(seen.words, now.size(), now.data());
      return now == seen.then;
    });
  }

  static std::byte* map(int protection, int file) {
    void* const address = mmap(nullptr, kMemory, protection, MAP_SHARED | MAP_NORESERVE, file, 0);
    if (address == MAP_FAILED) throw std::bad_alloc();
    return static_cast<std::byte*>(address);
  }
  std::byte* reach(std::byte* tensor) { return memory_ + (tensor - forbidden_); }

  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return stopping_ || (!queue_.empty() && done_ + 1 < held_from_); });
      if (queue_.empty()) return;  // stopping, and all batches that were started are done
      Batch batch = std::move(queue_.front());
      queue_.pop_front();
      const bool fails = done_ + 1 >= fails_from_;
      lock.unlock();
      const std::vector<Seen> sums = see_sums(batch);
      // Sleeps now and then, so that others overtake the device. Correctness does not depend on the time.
      if (random_() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random_() % 300));
      for (DeviceTask& task : batch.tasks) {
        if (task.tensor != nullptr) task.tensor = reach(task.tensor);
        auto* const words = reinterpret_cast<std::byte*>(task.words);
        if (words >= forbidden_ && words < forbidden_ + kMemory)
          task.words = reinterpret_cast<std::uint32_t*>(reach(words));
      }
      Status status;
      if (!fails) status = queue_tasks(nullptr, batch.format, batch.tasks);
      if (!status.ok()) throw Error(status);
      const bool same = same_still(sums);
      lock.lock();
      if (!same) disturbed_ = {ErrorCode::kGpu, "a sum changed while the device read it"};
      ++done_;
      changed_.notify_all();
    }
  }

  std::mt19937_64 random_;  // used by the device's thread only
  std::byte *forbidden_, *memory_;
  std::size_t used_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Batch> queue_;
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};
  std::uint64_t started_ = 0, done_ = 0, fails_from_ = kNever, held_from_ = kNever;
  std::size_t most_tasks_ = 0;
  WordsMoved moved_;
  Status disturbed_;
  std::atomic<bool> shares_ = true;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace jaxina::testing
