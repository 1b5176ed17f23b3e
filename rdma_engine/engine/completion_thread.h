// Runs callbacks in order on a thread of its own, because a completion may run the rest of the caller's program.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "rdma_engine/engine/engine.h"

namespace jaxina {

class CompletionThread {
 public:
  CompletionThread();   // throws Error(kSystem)
  ~CompletionThread();  // runs what is queued, then ends
  void post(Engine::Completion done, Status status);

  // Whether everything posted has been called, so that the caller may itself call what comes after it: nothing is
  // queued, and nothing runs, unless it is what calls this.
  bool has_called_all() const {
    const std::size_t left = uncalled_.load(std::memory_order_acquire);
    return left == 0 || (left == 1 && std::this_thread::get_id() == thread_.get_id());
  }

 private:
  void run();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<Engine::Completion, Status>> queue_;
  std::atomic<std::size_t> uncalled_{0};  // posted, and not called to its end
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace jaxina
