// A device as the worker sees a GPU: a thread that works batches off in their order, late, with the GPU's kernels (emulated_kernels.cc). Its
// tensors lie where only it can read: the address that everybody else has is one whose access ends the process.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "rdma_engine/worker/tensor_device.h"
#include "xla_ffi/gpu/device_tasks.h"

namespace jaxina::testing {

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

  // Memory for a tensor, as its address on the device.
  std::byte* tensor(std::size_t bytes) {
    std::byte* const address = forbidden_ + used_;
    used_ += (bytes + 63) / 64 * 64;
    if (used_ > kMemory) throw std::bad_alloc();
    return address;
  }
  void write(std::byte* tensor, const std::vector<std::byte>& bytes) { std::copy(bytes.begin(), bytes.end(), reach(tensor)); }
  std::vector<std::byte> read(std::byte* tensor, std::size_t bytes) { return {reach(tensor), reach(tensor) + bytes}; }

  // From the batch with this number on every batch fails.
  void fail_from(std::uint64_t ticket) {
    const std::lock_guard guard(mutex_);
    fails_from_ = ticket;
  }
  // No batch starts to be worked off before release().
  void hold() {
    const std::lock_guard guard(mutex_);
    held_ = true;
  }
  void release() {
    {
      const std::lock_guard guard(mutex_);
      held_ = false;
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

  DeviceMemory allocate(std::size_t bytes) override {
    return {new std::byte[bytes](), [](std::byte* memory) { delete[] memory; }};
  }
  Status start(const DeviceFormat& format, std::span<const DeviceTask> tasks, std::uint64_t& ticket) override {
    const std::lock_guard guard(mutex_);
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
    return {};
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

  static std::byte* map(int protection, int file) {
    void* const address = mmap(nullptr, kMemory, protection, MAP_SHARED | MAP_NORESERVE, file, 0);
    if (address == MAP_FAILED) throw std::bad_alloc();
    return static_cast<std::byte*>(address);
  }
  std::byte* reach(std::byte* tensor) { return memory_ + (tensor - forbidden_); }

  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return stopping_ || (!queue_.empty() && !held_); });
      if (queue_.empty()) return;  // stopping; what was started is worked off first
      Batch batch = std::move(queue_.front());
      queue_.pop_front();
      const bool fails = done_ + 1 >= fails_from_;
      lock.unlock();
      // Now and then late, so that others overtake; correctness does not rest on how long.
      if (random_() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random_() % 300));
      for (DeviceTask& task : batch.tasks) task.tensor = reach(task.tensor);
      Status status;
      if (!fails) status = queue_tasks(nullptr, batch.format, batch.tasks);
      if (!status.ok()) throw Error(status);
      lock.lock();
      ++done_;
      changed_.notify_all();
    }
  }

  std::mt19937_64 random_;  // the thread's
  std::byte *forbidden_, *memory_;
  std::size_t used_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Batch> queue_;
  std::uint64_t started_ = 0, done_ = 0, fails_from_ = ~std::uint64_t{0};
  std::size_t most_tasks_ = 0;
  bool held_ = false, stopping_ = false;
  std::thread thread_;
};

}  // namespace jaxina::testing
