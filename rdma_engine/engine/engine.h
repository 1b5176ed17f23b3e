// Engine: the process's entry to aggregation. It passes each local device's collectives to the node of its group, and
// completes them asynchronously. It knows nothing of JAX; xla_ffi/ is a thin shell around it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "rdma_engine/base/counters.h"
#include "rdma_engine/engine/under_way.h"
#include "rdma_engine/errors.h"
#include "rdma_engine/transport/transport_config.h"
#include "rdma_engine/worker/recorder.h"
#include "rdma_engine/worker/tensor.h"

namespace jaxina {

// Global ids of the devices that sum together.
using Group = std::vector<std::int64_t>;

// A device has a second stream of sums, with its own order and its own aggregators. Adding this to a device's id names
// that stream. It carries the sums that XLA inserts by itself, because these have no fixed order relative to the sums
// that the program asked for.
inline constexpr std::int64_t kSecondStream = std::int64_t{1} << 32;
Group second_stream(Group group);

// How this process takes part in a group: it sums its own devices and sends one stream to the aggregator, whose workers
// are the group's processes. The control plane (Python) fills this in once per group.
struct GroupConfig {
  Membership member;                 // of this process. A group within one process needs no aggregator
  std::vector<std::uint32_t> local;  // this process's devices, by their index in the group
  TransportConfig transport;
  double collective_timeout_s = 300;  // how long one collective may take
};

class Engine {
 public:
  // Called on the group's own thread when the group is first used. May block up to the join deadline. Throws Error.
  using Connector = std::function<GroupConfig(const Group& group)>;
  // Called on the completion thread of the device and group, or on the submitting thread before submit() returns.
  using Completion = std::function<void(Status)>;
  // Called on the group's thread if the group ends for a reason that other processes cannot see.
  using Ended = std::function<void(const Group& group, const Status& reason)>;

  // The process-wide engine. It lives until the process ends; start() and shutdown() open and close it. All methods are
  // thread-safe.
  static Engine& instance();

  // Opens the engine. With `trace`, it records what its groups do. Throws Error(kInvalidArgument) if it is open
  // already.
  void start(Connector connector, Ended ended, bool trace = false);
  // Fails pending collectives with kShutDown, leaves all groups and joins all threads.
  void shutdown();
  // Whether the engine is open. False in a child that was forked while the engine was open, because the threads stayed
  // in the parent. In such a child start() opens the engine again; before that, submit() completes with
  // kNotInitialized, and all other methods throw it.
  bool running() const;

  // Queues a collective of `device`, which must be in `group`. A device's collectives complete in the order of
  // submission. Never blocks on the network. If the whole group is in this process and the sum is small, the last
  // device to submit computes it on its own thread. `done` is called exactly once. Its status is kNotInitialized if the
  // engine is not running, kInvalidArgument if the device is not in the group, and kSystem if no thread can be started.
  void submit(const Group& group, std::int64_t device, Collective collective, Completion done);

  // Ends every collective of the group in this process, now and later, with this error (a peer died, or the control
  // connection broke). An empty group means all groups.
  void abort(const Group& group, const Status& reason);

  Counters statistics() const;  // summed over groups

  // What this process's devices have submitted, by group, and what has not completed.
  std::map<Group, std::vector<UnderWay::Device>> under_way() const;

  // The recorders of all groups between the latest start() and shutdown(). The engine does not keep them.
  std::map<Group, std::unique_ptr<Recorder>> take_trace();

 private:
  Engine();
  ~Engine();
  struct State;
  void after_fork_in_child();
  void check_not_forked() const;  // needs the lock
  std::unique_ptr<State> state_;
};

}  // namespace jaxina
