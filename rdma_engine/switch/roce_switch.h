// RoceSwitch: the software switch for RDMA: aggregators behind one RoCEv2 socket, on their own thread. NICs can send
// only to one UDP port, so there is one thread, and slots are not sharded as for the udp transport.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rdma_engine/messages/connection_end.h"
#include "rdma_engine/shape/job_spec.h"
#include "rdma_engine/switch/lanes.h"
#include "rdma_engine/switch/message_engine.h"

namespace jaxina {

struct RoceSwitchConfig {
  std::string address = "127.0.0.1";    // one IPv4 address of this host
  std::uint16_t port = roce::kUdpPort;  // 0: the system chooses. Workers with a NIC need kUdpPort
  std::uint32_t mtu = 1024;             // the largest MTU that it offers
  roce::IcrcPolicy icrc = roce::IcrcPolicy::kCheck;
  double loss = 0;  // share of arriving packets to drop, for experiments
  std::uint64_t loss_seed = 0;
  bool offload = true;  // off: queueing disciplines see every packet separately, which tests of loss need
  std::optional<std::uint32_t> first_psn = {};  // if empty, drawn at random for every connection
};

class RoceSwitch {
 public:
  // Throws Error(kInvalidArgument) if the port is in use or the address is not this host's, Error(kSystem) if the
  // system cannot start another thread.
  explicit RoceSwitch(const RoceSwitchConfig& config);

  std::uint16_t port() const { return port_; }

  // See Lanes.
  void add_job(const JobSpec& spec);
  void remove_job(std::uint32_t job) { lanes_->remove_job(job); }
  void abort_job(std::uint32_t job, const Status& reason) { lanes_->abort_job(job, reason); }
  SwitchCounters statistics() { return lanes_->statistics(); }
  std::vector<std::uint32_t> missing(std::uint32_t job) { return lanes_->missing(job); }
  std::optional<SlotContents> inspect(std::uint32_t job, std::uint32_t slot, std::uint32_t version) {
    return lanes_->inspect(job, slot, version);
  }
  void stop() { lanes_->stop(); }

  // Connects a worker and returns the switch's queue pairs for it. A worker that connects again loses its old ones.
  // `remote.address` must be a numeric IPv4 address, so that this never waits for name resolution. Throws
  // Error(kInvalidArgument) if the worker's end does not fit the job, Error(kJobRejected) if there is no such job,
  // Error(kSwitchUnreachable) if there is no route to the worker.
  roce::ConnectionEnd connect(std::uint32_t job, std::uint32_t worker, const roce::ConnectionEnd& remote);

 private:
  RoceSwitchConfig config_;
  std::string address_;
  std::uint16_t port_;
  std::unique_ptr<Lanes<MessageEngine>> lanes_;
};

}  // namespace jaxina
