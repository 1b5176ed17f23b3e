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

#include "rdma_engine/errors.h"
#include "rdma_engine/transport/roce/connection_end.h"
#include "rdma_engine/worker/recorder.h"
#include "rdma_engine/worker/tensor.h"

namespace jaxina {

// The devices that sum together, as global device ids.
using Group = std::vector<std::int64_t>;

// How this process takes part in a group: its devices are summed here, and one stream goes to the aggregator, whose
// workers are the group's processes. Filled by the control plane (Python), once per group.
struct EndpointConfig {
  std::string transport;           // "embedded", "udp", "roce" or "verbs"
  std::uint32_t devices = 0;       // n: the group's devices, in all processes
  std::vector<std::uint32_t> local;  // this process's, by their places in the group
  std::uint32_t workers = 0;       // processes that take part; one process alone needs no aggregator
  std::uint32_t worker = 0;        // this process's index in [0, workers)
  std::uint32_t job = 0;           // job id at the aggregator
  std::uint64_t secret = 0;        // shared by the job's workers and its aggregator
  std::uint32_t slots = 0;         // s: pool size
  std::uint32_t block_size = 256;  // k: elements that share one exponent
  std::uint32_t blocks_per_chunk = 1;
  std::string segment;                // embedded: name of the shared-memory segment ("" = private to this process)
  std::string address;                // the switch's host
  std::vector<std::uint16_t> ports;   // udp: one data port per switch thread; slot i belongs to ports[i % size]
  roce::Exchange exchange;            // roce, verbs: connects this process's queue pairs to the switch's
  bool whole_chunks = false;          // the switch takes passes with no words or a whole chunk's only
  bool checksums = true;              // else its datagrams carry no CRC, its RDMA packets no right ICRC
  std::string rdma_device;            // verbs: "" = any
  double loss = 0;                    // udp, roce: share of arriving packets to drop, for experiments
  std::uint64_t loss_seed = 0;
  double join_timeout_s = 60;        // how long to wait for the other workers of the group
  double collective_timeout_s = 300; // how long one collective may take
};

struct Statistics {
  std::uint64_t collectives = 0;  // of every local device
  std::uint64_t elements = 0;     // of every local device
  std::uint64_t packets_sent = 0;
  std::uint64_t packets_received = 0;
  std::uint64_t bytes_sent = 0;      // on the wire below UDP's payload, headers of this protocol included; 0 for embedded
  std::uint64_t bytes_received = 0;
  std::uint64_t retransmissions = 0;
  std::uint64_t packets_dropped = 0;  // by `loss`
  std::uint64_t packets_rejected = 0; // malformed, stale or foreign
  std::uint64_t staged_words = 0;     // that GPUs wrote and the processor copied or added, or that it copied for them to read
};

class Engine {
 public:
  // Called on a thread of the group's own when it is first used; may block up to the join deadline, throws Error.
  using Connector = std::function<EndpointConfig(const Group& group)>;
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
  bool running() const;

  // Queues a collective of `device`, one of `group`'s; a device's complete in the order of submit. Never blocks on the
  // network; where the group lies in this process and there is little to sum, the last device to come sums it. `done` is called exactly once, with kNotInitialized if the engine is not running and
  // kInvalidArgument if the device is not in the group.
  void submit(const Group& group, std::int64_t device, Collective collective, Completion done);

  // Ends every collective of the group in this process, now and later, with this error (a peer died, the
  // control connection broke). An empty group means all groups.
  void abort(const Group& group, Status reason);

  Statistics statistics() const;  // summed over groups

  // What was recorded between the latest start and shutdown, by group; it is forgotten here.
  std::map<Group, std::unique_ptr<Recorder>> take_trace();

 private:
  Engine();
  ~Engine();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace jaxina
