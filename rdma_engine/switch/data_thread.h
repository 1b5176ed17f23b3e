// A thread that drives a packet engine, and runs commands of other threads between two batches: so nothing that the
// engine holds needs a lock.
#pragma once

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "rdma_engine/switch/packet_engine.h"

namespace jaxina {

class DataThread {
 public:
  // The engine outlives this. Throws Error(kSystem) if the system has no thread left.
  explicit DataThread(PacketEngine& engine);
  ~DataThread();

  // Runs command() on the thread, after what was posted before. What it refers to it owns: nobody has to wait for it.
  template <typename Command>
  auto post(Command command) {
    using Value = decltype(command());
    auto task = std::make_shared<std::packaged_task<Value()>>(std::move(command));
    std::future<Value> future = task->get_future();
    enqueue([task] { (*task)(); });
    return future;
  }

 private:
  void run();
  void run_commands();
  void enqueue(std::function<void()> command);

  PacketEngine& engine_;
  std::mutex mutex_;  // of commands_; the loop takes it only when has_commands_ is set
  std::vector<std::function<void()>> commands_;
  std::atomic<bool> has_commands_ = false;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace jaxina
