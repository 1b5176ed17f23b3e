// Node: the aggregator within a process, for its devices of one group. It matches the devices' collectives by their
// order. When all devices have contributed to a round, the node sums the round as integers. If other processes take
// part in the group, it sends one stream to the job's aggregator; otherwise the result is complete.
//
// submit(), abort() and statistics() are thread-safe.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "rdma_engine/base/watched_clock.h"
#include "rdma_engine/engine/completion_thread.h"
#include "rdma_engine/engine/engine.h"
#include "rdma_engine/engine/local_sum.h"
#include "rdma_engine/transport/endpoint.h"

namespace jaxina {

class Node {
 public:
  // If there is a recorder, it records collectives, passes and waits. If no thread can be started, all collectives
  // fail.
  Node(Group group, Engine::Connector connector, Engine::Ended ended, std::unique_ptr<Recorder> recorder = nullptr);

  // `index` is the device's index in the group. `done` may be called before this returns.
  void submit(std::uint32_t index, Collective collective, Engine::Completion done);
  void abort(Status reason);
  Counters statistics() const;

  // Fails pending collectives with kShutDown and joins all threads. Call it once, before destruction, and not from a
  // completion.
  void close();

  // What the devices have submitted. It outlives the node, because completions may come after close().
  std::shared_ptr<UnderWay> under_way() const { return under_way_; }

  // Call this only after close().
  std::unique_ptr<Recorder> take_recorder() { return std::move(recorder_); }

 private:
  struct Request {
    Collective collective;
    Engine::Completion done;
    std::uint32_t fingerprint;
    Nanoseconds begun;
    Nanoseconds waits_since;  // when it began, by watched_
  };
  struct Device {
    std::deque<Request> requests;  // requests that no round has taken yet
    CompletionThread completions;
  };
  // One collective of every local device, in the devices' order.
  struct Round {
    std::vector<Collective> contributions;
    std::vector<Engine::Completion> done;
    Nanoseconds begun;                       // when the first device submitted
    Nanoseconds waits_since;                 // the same, by watched_
    std::uint64_t number = 0, elements = 0;  // for the trace
  };

  void run();
  bool connect();
  bool step();
  Status sum_locally(Round& round);
  Status gives_up(const Round& round);
  Status send(Round& round);
  bool advance();
  void finish(Round& round);
  void record(const Round& round) const;
  void fail(Status reason);
  void end_for_all(const Status& reason);
  bool sum_inline(std::unique_lock<std::mutex>& lock, Device& submitter);

  // These need the lock:
  void fail_requests();
  bool complete() const;  // whether every local device has a waiting request
  Round take();
  Status disagreement() const;
  Status late_device(Nanoseconds watched) const;
  Status overdue() const;

  const Group group_;
  const Engine::Connector connector_;
  const Engine::Ended ended_;
  const std::shared_ptr<UnderWay> under_way_ = std::make_shared<UnderWay>();
  std::unique_ptr<Recorder> recorder_;   // used by the thread that drives the endpoint or has set busy_
  std::optional<GroupConfig> config_;    // written by connect()
  std::unique_ptr<LocalSum> local_sum_;  // only for a group within this process; used by the thread that has set busy_
  // Only for other groups. The node's thread makes, uses and destroys it; other threads call only wake(), under the
  // mutex.
  std::unique_ptr<Endpoint> endpoint_;
  std::deque<Round> in_flight_;  // rounds submitted to the endpoint's worker; used only by the node's thread

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint32_t, Device> devices_;  // by index in the group
  std::vector<Device*> local_;               // all of this process's devices, set by connect()
  bool busy_ = false;                        // a round is being summed in this process
  Status failed_;                            // the first failure, final
  Status abort_reason_;
  Status broken_;  // what a submitting thread found, for which the group ends for all
  bool stopping_ = false;
  Counters statistics_;
  std::uint64_t rounds_ = 0;  // number of rounds taken
  WatchedClock watched_;      // what timeouts go by
  std::thread thread_;
};

}  // namespace jaxina
