// SoftwareSwitch: the software switch for udp: aggregators behind UDP sockets, and combiners for jobs that are summed
// at servers elsewhere. Slots are sharded over threads (Lanes).
// Each thread has its own port, and workers send a slot's packets to its thread's port.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rdma_engine/errors.h"
#include "rdma_engine/shape/job_spec.h"
#include "rdma_engine/switch/datagram_engine.h"
#include "rdma_engine/switch/lanes.h"

namespace jaxina {

struct SwitchConfig {
  std::string address = "127.0.0.1";      // the address of this host that workers send to
  std::vector<std::uint16_t> ports = {};  // one per thread; empty: the system chooses
  std::uint32_t threads = 1;
  double loss = 0;  // share of arriving packets to drop, for experiments
  std::uint64_t loss_seed = 0;
  // Entries of the table that jobs share whose updates are combined here. Each holds a packet of at most kEntryBytes.
  std::uint32_t entries = 0;
  double share_sent_on = 0;  // for experiments: this share of their passes is not combined
  // Of the links from here to each host, in megabits per second; 0: not known. If it is known, updates and results of
  // combined jobs are marked while such a link has a queue.
  double port_rate = 0;
};

inline constexpr std::size_t kEntryBytes = 9216;

class SoftwareSwitch {
 public:
  // Throws Error(kInvalidArgument) if a port is in use, the address is not this host's or a number is out of range,
  // Error(kSystem) if the system cannot start another thread.
  explicit SoftwareSwitch(const SwitchConfig& config);

  const std::vector<std::uint16_t>& ports() const { return ports_; }

  // See Lanes. `part` is this switch's part of the job's slots if several switches share the job. The addresses of all
  // their threads then go by thread, and by switch for each thread: slot i belongs to addresses[i % size]. Throws
  // Error(kInvalidArgument) if there is no such part.
  // `switches` may combine the job's updates on their way here.
  void add_job(const JobSpec& spec, const Shard& part = {}, const CombiningSwitches& switches = {});
  // Adds a job whose updates are combined here, on their way to its servers. Throws Error(kJobRejected) if the id is in
  // use, or if its packets are too large for the entries.
  void combine_job(const CombinedJobSpec& spec);
  void remove_job(std::uint32_t job) { lanes_->remove_job(job); }
  void abort_job(std::uint32_t job, const Status& reason) { lanes_->abort_job(job, reason); }
  SwitchCounters statistics() { return lanes_->statistics(); }
  std::vector<std::uint32_t> missing(std::uint32_t job) { return lanes_->missing(job); }
  void stop() { lanes_->stop(); }

  // The number of slots, at most the shape's own, for which the first bursts of all workers together fit the socket
  // buffers that the system granted. A larger pool works, but may lose packets in these bursts.
  std::uint32_t slots_that_fit(const JobShape& shape) const;

  // Bytes of packets that may wait unread at each socket: granted by the system, and requested. The system grants less
  // if net.core.rmem_max limits it.
  std::size_t receive_buffer_granted() const { return receive_granted_; }
  std::size_t receive_buffer_requested() const { return receive_requested_; }

 private:
  std::vector<std::uint16_t> ports_;
  std::size_t receive_granted_ = 0, receive_requested_ = 0;
  std::unique_ptr<Lanes<DatagramEngine>> lanes_;
};

}  // namespace jaxina
