// CompletionThread: runs callbacks in order on its own thread, because a completion may run the rest of the caller's
// program.
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
  ~CompletionThread();  // runs the queued callbacks, then ends the thread
  void post(Engine::Completion done, Status status);

  // Whether all posted callbacks have returned, or the only one still running is the one that calls this. Then nothing
  // is queued, and the caller may run the next completion itself.
  bool has_called_all() const {
    const std::size_t left = uncalled_.load(std::memory_order_acquire);
    return left == 0 || (left == 1 && std::this_thread::get_id() == thread_.get_id());
  }

 private:
  void run();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<Engine::Completion, Status>> queue_;
  std::atomic<std::size_t> uncalled_{0};  // posted and not yet returned
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace jaxina
