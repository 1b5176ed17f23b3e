#include "rdma_engine/engine/local_sum.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "rdma_engine/transport/start_thread.h"

namespace jaxina {

Collective part_of(const Collective& whole, std::size_t part, std::size_t parts, std::uint32_t block_size) {
  const auto per_block = [&](const Tensor& t) { return block_size / numerics::element_codec(t.type).words; };
  const auto blocks_of = [&](const Tensor& t) { return (t.count + per_block(t) - 1) / per_block(t); };
  std::size_t blocks = 0;
  for (const Tensor& t : whole.tensors) blocks += blocks_of(t);
  const std::size_t begin = blocks * part / parts, end = blocks * (part + 1) / parts;
  Collective result{
      .tensors = {}, .identity = whole.identity, .rounded_to_zero = whole.rounded_to_zero, .rounding = whole.rounding};
  std::size_t first = 0;  // number of the tensor's first block
  for (const Tensor& t : whole.tensors) {
    const std::size_t past = first + blocks_of(t);
    const std::size_t from = std::clamp(begin, first, past), to = std::clamp(end, first, past);
    if (from < to) {
      const std::size_t skipped = (from - first) * per_block(t), size = numerics::element_codec(t.type).size;
      result.tensors.push_back({t.type, std::min(t.count, (to - first) * per_block(t)) - skipped,
                                static_cast<const std::byte*>(t.in) + skipped * size,
                                static_cast<std::byte*>(t.out) + skipped * size, t.streams, t.word});
    }
    if (t.word != numerics::WireWord::kInt32) result.narrow_blocks_before += from - first;
    first = past;
  }
  return result;
}

namespace {

JobShape one_slot(const JobShape& shape) { return shape.with_slots(1); }

}  // namespace

class LocalSum::Lane {
 public:
  explicit Lane(const JobShape& shape)
      : worker_({.shape = shape, .timer = {}}),
        words_(shape.words_per_chunk()),
        exponents_(shape.exponents_per_pass()) {}

  void run(std::vector<Collective> contributions, const std::function<Status()>& gives_up = {}) {
    worker_.submit_contributions(std::move(contributions));
    while (worker_.pop_completed() == 0) {
      if (gives_up) {
        if (const Status reason = gives_up(); !reason.ok()) throw Error(reason);
      }
      const std::optional<Pass> pass = worker_.next_pass(0);
      if (!pass) {
        if (const Status failure = worker_.device_failure(); !failure.ok()) throw Error(failure);
        std::this_thread::yield();  // the devices are still producing the pass
        continue;
      }
      worker_.fill_exponents(*pass, exponents_.data(), false);
      worker_.fill_words(*pass, words_.data(), numerics::Store::kWrite);
      worker_.on_result({pass->slot, pass->epoch, pass->fingerprint, pass->words, pass->exponents, words_.data(),
                         exponents_.data(), numerics::Order::kHost},
                        0);
    }
  }

 private:
  Worker worker_;
  std::vector<std::uint32_t> words_;
  std::vector<std::uint8_t> exponents_;
};

// Runs a task on the calling thread and on threads of its own, all at once. If the task throws on any of them, run()
// throws the first exception, after all have ended.
class LocalSum::ThreadTeam {
 public:
  using Task = std::function<void(std::size_t thread)>;

  // `size`: the number of threads, with the calling one. Throws Error(kSystem).
  explicit ThreadTeam(std::size_t size) {
    threads_.reserve(size - 1);
    try {
      for (std::size_t i = 1; i < size; ++i) threads_.push_back(start_thread([this, i] { help(i); }));
    } catch (const Error&) {
      stop();
      throw;
    }
  }
  ~ThreadTeam() { stop(); }
  std::size_t size() const { return threads_.size() + 1; }

  void run(const Task& task) {
    {
      const std::lock_guard guard(mutex_);
      task_ = &task;
      busy_ = threads_.size();
      ++round_;
    }
    changed_.notify_all();
    attempt(task, 0);
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return busy_ == 0; });
    if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
  }

 private:
  void stop() {
    {
      const std::lock_guard guard(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  void attempt(const Task& task, std::size_t thread) {
    try {
      task(thread);
    } catch (...) {
      const std::lock_guard guard(mutex_);
      if (!thrown_) thrown_ = std::current_exception();
    }
  }

  void help(std::size_t index) {
    std::unique_lock lock(mutex_);
    for (std::uint64_t done = 0;;) {
      changed_.wait(lock, [&] { return stopping_ || round_ != done; });
      if (stopping_) return;
      done = round_;
      const Task& task = *task_;
      lock.unlock();
      attempt(task, index);
      lock.lock();
      if (--busy_ == 0) changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  const Task* task_ = nullptr;
  std::uint64_t round_ = 0;
  std::size_t busy_ = 0;
  bool stopping_ = false;
  std::exception_ptr thrown_;  // by the task, in this round
  std::vector<std::thread> threads_;
};

LocalSum::LocalSum(const JobShape& shape) : shape_(shape) {
  lanes_.push_back(std::make_unique<Lane>(one_slot(shape_)));
}

LocalSum::~LocalSum() = default;

void LocalSum::run(std::vector<Collective> contributions, const std::function<Status()>& gives_up) {
  if (contributions.front().device != nullptr) return run_on_devices(std::move(contributions), gives_up);
  lanes_.front()->run(std::move(contributions));
}

void LocalSum::run_on_devices(std::vector<Collective> contributions, const std::function<Status()>& gives_up) {
  if (!device_lane_) device_lane_ = std::make_unique<Lane>(shape_);
  try {
    device_lane_->run(std::move(contributions), gives_up);
  } catch (const Error&) {
    device_lane_.reset();  // waits until the devices no longer touch any memory
    throw;
  }
}

void LocalSum::run_together(const std::vector<Collective>& contributions) {
  if (!team_) {
    // At most one thread per device: XLA itself uses no more.
    const std::size_t threads =
        std::min<std::size_t>(shape_.devices(), std::max(1u, std::thread::hardware_concurrency()));
    team_ = std::make_unique<ThreadTeam>(threads);
    while (lanes_.size() < threads) lanes_.push_back(std::make_unique<Lane>(one_slot(shape_)));
  }
  // Several parts per thread, because some threads get less processor time than others.
  const std::size_t parts = 4 * team_->size();
  std::atomic<std::size_t> next = 0;
  team_->run([&](std::size_t thread) {
    for (std::size_t part = next++; part < parts; part = next++) {
      std::vector<Collective> mine;
      for (const Collective& whole : contributions) mine.push_back(part_of(whole, part, parts, shape_.block_size()));
      lanes_[thread]->run(std::move(mine));
    }
  });
}

}  // namespace jaxina
