#include "rdma_engine/switch/data_thread.h"

#include <string>
#include <system_error>

#include "rdma_engine/errors.h"

namespace jaxina {
namespace {

constexpr Nanoseconds kLongestSleep = 1'000'000'000;

}  // namespace

DataThread::DataThread(PacketEngine& engine) : engine_(engine) {
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    throw Error(ErrorCode::kSystem, std::string("the switch cannot start a thread: ") + error.what() +
                                        "; raise the limit of processes (ulimit -u) or give it fewer --threads");
  }
}

DataThread::~DataThread() {
  stopping_ = true;
  engine_.interrupt();
  thread_.join();
}

void DataThread::enqueue(std::function<void()> command) {
  {
    const std::lock_guard lock(mutex_);
    commands_.push_back(std::move(command));
  }
  has_commands_ = true;
  engine_.interrupt();
}

void DataThread::run() {
  while (!stopping_) {
    if (has_commands_) run_commands();
    if (engine_.turn() == 0) engine_.wait(kLongestSleep);
  }
}

void DataThread::run_commands() {
  has_commands_ = false;
  std::vector<std::function<void()>> commands;
  {
    const std::lock_guard lock(mutex_);
    commands.swap(commands_);
  }
  for (const std::function<void()>& command : commands) {
    command();
    engine_.flush();
  }
}

}  // namespace jaxina
