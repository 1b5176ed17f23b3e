// One local device's place in one group: a thread that drives its endpoint, and a thread that reports completions.
// Two threads, because a completion may run the rest of the caller's program.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "rdma_engine/engine/engine.h"
#include "rdma_engine/transport/endpoint.h"

namespace jaxina {

// Runs callbacks in order on a thread of its own.
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

class GroupMember {
 public:
  GroupMember(Group group, std::uint32_t index, Engine::Connector connector);
  ~GroupMember();  // fails what is pending with kShutDown

  void submit(Collective collective, Engine::Completion done);
  void abort(Status reason);
  Statistics statistics() const;

 private:
  struct Request {
    Collective collective;
    Engine::Completion done;
  };
  struct Pending {
    Engine::Completion done;
    Nanoseconds deadline;
  };

  void run();
  bool connect();
  bool take_requests();  // waits while there is nothing to do; false when the member is to end
  void advance();
  void fail(Status reason);
  Status overdue() const;
  void count(const Collective& collective);

  const Group group_;
  const std::uint32_t index_;
  const Engine::Connector connector_;
  EndpointConfig config_;
  std::unique_ptr<Endpoint> endpoint_;  // made, used and destroyed by the thread; wake() under the mutex
  std::deque<Pending> pending_;         // submitted to the worker
  CompletionThread completions_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Request> requests_;
  Status failed_;         // sticky
  Status abort_reason_;
  bool stopping_ = false;
  Statistics statistics_;
  std::thread thread_;
};

}  // namespace jaxina
