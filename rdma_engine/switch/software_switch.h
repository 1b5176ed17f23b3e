// The software switch: the aggregator behind UDP sockets, slots sharded over threads. Every thread has a port and an
// aggregator of its own that knows all jobs; slot i of a job is served by thread i mod T, to whose port the workers
// send it. So no two threads share a slot, and no lock lies on the packets' way.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "rdma_engine/aggregator/aggregator.h"
#include "rdma_engine/errors.h"

namespace jaxina {

struct SwitchConfig {
  std::string address = "127.0.0.1";  // of this host, where workers send to
  std::vector<std::uint16_t> ports;   // one per thread; empty: the system chooses
  std::uint32_t threads = 1;
  double loss = 0;                    // share of arriving packets to drop, for experiments
  std::uint64_t loss_seed = 0;
};

struct SwitchStatistics {
  struct Job {
    JobCounters counters;
    Aggregator::Rejects rejects{};
  };
  std::map<std::uint32_t, Job> jobs;
  Aggregator::Rejects rejects{};        // of packets that belong to none of these jobs
  std::uint64_t packets_received = 0;   // before `loss`
  std::uint64_t packets_dropped = 0;    // by `loss`
  std::uint64_t packets_unsent = 0;     // the network would not take them
};

class SwitchThread;

// All methods may be called from any thread. They wait for the data threads, at most five seconds, and throw
// Error(kSystem) if one does not answer.
class SoftwareSwitch {
 public:
  // Throws Error(kInvalidArgument) for a port in use, an address that is not this host's or a number that cannot work.
  explicit SoftwareSwitch(const SwitchConfig& config);
  ~SoftwareSwitch();

  const std::vector<std::uint16_t>& ports() const { return ports_; }

  // Throws Error: see Aggregator::add_job.
  void add_job(const JobSpec& spec);
  void remove_job(std::uint32_t job);
  // Answers every packet of the job with this error from now on; workers heard from so far are told at once.
  void abort_job(std::uint32_t job, const Status& reason);

  SwitchStatistics statistics();
  // The workers that some incomplete pass of the job waits for, in ascending order.
  std::vector<std::uint32_t> missing(std::uint32_t job);

  // The largest pool for which the first bursts of all workers, which come at once, fit the socket buffers that the
  // system granted. A larger one works, but may lose packets to them.
  std::uint32_t slots_that_fit(std::uint32_t workers, std::uint32_t block_size, std::uint32_t blocks_per_chunk) const;

  // Closes the ports and ends the threads. The other methods then throw Error(kShutDown).
  void stop();

 private:
  template <typename Command>
  auto on_every_thread(Command command);

  std::mutex mutex_;  // one command at a time
  std::set<std::uint32_t> jobs_;
  std::vector<std::unique_ptr<SwitchThread>> threads_;
  std::vector<std::uint16_t> ports_;
  std::size_t receive_capacity_ = 0;  // bytes, of one socket
};

}  // namespace jaxina
