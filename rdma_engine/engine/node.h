// The node-level aggregator: one process's devices in one group. What the devices submit is matched by order; a round
// to which all have contributed is summed here, as integers, and goes on as one stream to the job's aggregator, where
// other processes take part in the group. A group that lies in one process ends here.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "rdma_engine/engine/completion_thread.h"
#include "rdma_engine/engine/engine.h"
#include "rdma_engine/engine/local_sum.h"
#include "rdma_engine/transport/endpoint.h"

namespace jaxina {

class Node {
 public:
  // With a recorder, tells it of collectives, passes and waits. Without a thread to be had, everything fails.
  Node(Group group, Engine::Connector connector, Engine::Ended ended, std::unique_ptr<Recorder> recorder = nullptr);

  // `index` is the device's place in the group. `done` may be called before this returns.
  void submit(std::uint32_t index, Collective collective, Engine::Completion done);
  void abort(Status reason);
  Counters statistics() const;

  // Fails what is pending with kShutDown and joins all threads; to be called once, before the destruction, and not from
  // a completion.
  void close();

  // Once closed.
  std::unique_ptr<Recorder> take_recorder() { return std::move(recorder_); }

 private:
  struct Request {
    Collective collective;
    Engine::Completion done;
    std::uint32_t fingerprint;
    Nanoseconds begun;
  };
  struct Device {
    std::deque<Request> requests;  // not yet part of a round that was taken
    CompletionThread completions;
  };
  // One collective of every local device, in their order.
  struct Round {
    std::vector<Collective> contributions;
    std::vector<Engine::Completion> done;
    Nanoseconds begun;                       // by the first device
    std::uint64_t number = 0, elements = 0;  // for the trace
  };

  void run();
  bool connect();
  bool step();
  Status sum_locally(Round& round);
  Status send(Round& round);
  bool advance();
  void finish(Round& round);
  void record(const Round& round) const;
  void fail(Status reason);
  void end_for_all(Status reason);
  bool sum_inline(std::unique_lock<std::mutex>& lock, Device& submitter);

  // With the lock held:
  void fail_requests();
  bool complete() const;  // whether every local device waits
  Round take();
  Status disagreement() const;
  Status late_device(Nanoseconds now) const;
  Status overdue() const;

  const Group group_;
  const Engine::Connector connector_;
  const Engine::Ended ended_;
  std::unique_ptr<Recorder> recorder_;   // of the thread that drives the endpoint, or that has set busy_
  std::optional<GroupConfig> config_;    // written by connect()
  std::unique_ptr<LocalSum> local_sum_;  // of a group that lies in this process; used by who has set busy_
  std::unique_ptr<Endpoint> endpoint_;   // else: made, used and destroyed by the thread; wake() under the mutex
  std::deque<Round> in_flight_;          // submitted to the endpoint's worker; the thread's own

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint32_t, Device> devices_;  // by place in the group
  std::vector<Device*> local_;               // all of this process's, once connected
  bool busy_ = false;                        // a round is being summed here
  Status failed_;                            // sticky
  Status abort_reason_;
  Status no_thread_;  // a device's completions have none: the group ends for all
  bool stopping_ = false;
  Counters statistics_;
  std::uint64_t rounds_ = 0;  // taken
  std::thread thread_;
};

}  // namespace jaxina
