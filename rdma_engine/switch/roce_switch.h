// The software switch for RDMA: an aggregator behind a RoCEv2 socket, on a thread of its own. NICs send to one UDP port, so
// there is one thread; slots are not sharded as those of the udp transport are.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "rdma_engine/aggregator/aggregator.h"
#include "rdma_engine/switch/roce_connections.h"
#include "rdma_engine/transport/roce/roce_socket.h"
#include "rdma_engine/transport/udp/loss_filter.h"

namespace jaxina {

struct RoceSwitchConfig {
  std::string address = "127.0.0.1";         // one IPv4 address of this host
  std::uint16_t port = roce::kUdpPort;       // 0: the system chooses; workers with a NIC need kUdpPort
  std::uint32_t mtu = 1024;                  // the largest it offers
  roce::IcrcPolicy icrc = roce::IcrcPolicy::kCheck;
  double loss = 0;                           // share of arriving packets to drop, for experiments
  std::uint64_t loss_seed = 0;
  bool offload = true;                       // off: every packet is one to queueing disciplines, as tests of loss want
  std::optional<std::uint32_t> first_psn = {};  // drawn for every connection unless given
};

struct RoceSwitchStatistics {
  JobCounters job;
  Aggregator::Rejects rejects{};
  RoceCounters roce;                   // of all jobs, as what follows
  roce::RoceSocket::Counters packets;
  std::uint64_t packets_dropped = 0;   // by `loss`
};

// All methods may be called from any thread; they wait for the packets that the data thread has taken to be handled.
class RoceSwitch {
 public:
  // Throws Error(kInvalidArgument) for a port in use or an address that is not this host's.
  explicit RoceSwitch(const RoceSwitchConfig& config);
  ~RoceSwitch();

  std::uint16_t port() const { return socket_.port(); }

  // Throws Error: see Aggregator::add_job.
  void add_job(const JobSpec& spec);
  void remove_job(std::uint32_t job);
  // Tells the workers heard from so far, and every worker that asks from now on.
  void abort_job(std::uint32_t job, const Status& reason);
  // Throws Error: see RoceConnections::connect.
  roce::ConnectionEnd connect(std::uint32_t job, std::uint16_t worker, const roce::ConnectionEnd& remote);

  // Zeros for a job that does not exist.
  RoceSwitchStatistics statistics(std::uint32_t job);
  std::vector<std::uint32_t> missing(std::uint32_t job);
  std::optional<SlotContents> inspect(std::uint32_t job, std::uint32_t slot, std::uint32_t version);

 private:
  void run();
  std::size_t receive();
  std::unique_lock<std::mutex> lock();

  std::mutex mutex_;  // of all below but what the thread waits on
  std::atomic<int> callers_ = 0;  // that want the mutex; the data thread lets them have it
  roce::RoceSocket socket_;
  RoceConnections connections_;
  Aggregator aggregator_;
  udp::LossFilter loss_;
  std::uint64_t packets_dropped_ = 0;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace jaxina
