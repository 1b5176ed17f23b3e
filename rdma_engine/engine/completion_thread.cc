#include "rdma_engine/engine/completion_thread.h"

#include "rdma_engine/transport/start_thread.h"

namespace jaxina {

CompletionThread::CompletionThread() : thread_(start_thread([this] { run(); })) {}

CompletionThread::~CompletionThread() {
  {
    const std::lock_guard guard(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void CompletionThread::post(Engine::Completion done, Status status) {
  {
    const std::lock_guard guard(mutex_);
    uncalled_.fetch_add(1, std::memory_order_relaxed);
    queue_.emplace_back(std::move(done), std::move(status));
  }
  changed_.notify_one();
}

void CompletionThread::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    auto [done, status] = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    done(std::move(status));
    uncalled_.fetch_sub(1, std::memory_order_release);
    done = nullptr;  // destroys what the callback holds before the lock is taken
    lock.lock();
  }
}

}  // namespace jaxina
