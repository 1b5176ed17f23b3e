// Runs callbacks in order on a thread of its own, because a completion may run the rest of the caller's program.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "rdma_engine/engine/engine.h"

namespace jaxina {

class CompletionThread {
 public:
  CompletionThread();
  ~CompletionThread();  // runs what is queued, then ends
  void post(Engine::Completion done, Status status);

 private:
  void run();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<Engine::Completion, Status>> queue_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace jaxina
