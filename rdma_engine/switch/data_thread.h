// DataThread: a thread that drives a packet engine. It runs commands of other threads between two batches of packets,
// so the engine needs no locks.
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
  // The engine must outlive this object. Throws Error(kSystem) if the system cannot start another thread.
  explicit DataThread(PacketEngine& engine);
  ~DataThread();

  // Runs command() on the thread, after all commands posted before. The command must own what it refers to, because the
  // caller may stop waiting for it.
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
  std::mutex mutex_;  // guards commands_; the loop takes it only if has_commands_ is set
  std::vector<std::function<void()>> commands_;
  std::atomic<bool> has_commands_ = false;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace jaxina
