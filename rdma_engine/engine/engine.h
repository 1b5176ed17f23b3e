// The process's entry to aggregation: hands what a local device wants summed to the node of its group and completes it
// asynchronously. Knows nothing of JAX; xla_ffi/ is a thin shell around it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "rdma_engine/base/counters.h"
#include "rdma_engine/errors.h"
#include "rdma_engine/transport/transport_config.h"
#include "rdma_engine/worker/recorder.h"
#include "rdma_engine/worker/tensor.h"

namespace jaxina {

// The devices that sum together, as global device ids.
using Group = std::vector<std::int64_t>;

// Added to a device's id, it names the device's second stream of sums, which has an order and aggregators of its own:
// sums that XLA calls for itself come in no fixed order beside those that the program asked for.
inline constexpr std::int64_t kSecondStream = std::int64_t{1} << 32;
Group second_stream(Group group);

// How this process takes part in a group: its devices are summed here, and one stream goes to the aggregator, whose
// workers are the group's processes. Filled by the control plane (Python), once per group.
struct GroupConfig {
  Membership member;                 // of this process; one process alone needs no aggregator
  std::vector<std::uint32_t> local;  // this process's devices, by their places in the group
  TransportConfig transport;
  double collective_timeout_s = 300;  // how long one collective may take
};

class Engine {
 public:
  // Called on a thread of the group's own when it is first used; may block up to the join deadline, throws Error.
  using Connector = std::function<GroupConfig(const Group& group)>;
  // Called on a completion thread of the device and group, or on the thread that submits, before submit() returns.
  using Completion = std::function<void(Status)>;
  // Called on the group's thread when it ends for a reason that other processes cannot see.
  using Ended = std::function<void(const Group& group, const Status& reason)>;

  // The process-wide engine. It lives until the process ends; start/shutdown open and close it.
  static Engine& instance();

  // Opens the engine; with `trace`, records what its groups do. Throws Error(kInvalidArgument) if it is open already.
  void start(Connector connector, Ended ended, bool trace = false);
  // Fails pending collectives with kShutDown, leaves all groups, joins all threads.
  void shutdown();
  // False also in a child that was forked while the engine was open: its threads are the parent's. There start() opens
  // it anew; until then submit() completes with kNotInitialized, and all else throws it.
  bool running() const;

  // Queues a collective of `device`, one of `group`'s; a device's complete in the order of submit. Never blocks on the
  // network; where the group lies in this process and there is little to sum, the last device to come sums it. `done`
  // is called exactly once, with kNotInitialized if the engine is not running, kInvalidArgument if the device is not in
  // the group, and kSystem if there is no thread to be had.
  void submit(const Group& group, std::int64_t device, Collective collective, Completion done);

  // Ends every collective of the group in this process, now and later, with this error (a peer died, the
  // control connection broke). An empty group means all groups.
  void abort(const Group& group, Status reason);

  Counters statistics() const;  // summed over groups

  // What was recorded between the latest start and shutdown, by group; it is forgotten here.
  std::map<Group, std::unique_ptr<Recorder>> take_trace();

 private:
  Engine();
  ~Engine();
  struct State;
  void after_fork_in_child();
  void check_not_forked() const;  // with the lock held
  std::unique_ptr<State> state_;
};

}  // namespace jaxina
