// SocketRing: a ring's reliable queue pairs over a UDP socket, for hosts without an RDMA device.
//
// A network card answers its neighbours whatever its worker does, and so must this. While the worker's thread is here,
// it moves the packets. When it has been away for a while, a thread of the device does.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "rdma_engine/net/loss_filter.h"
#include "rdma_engine/net/roce_socket.h"
#include "rdma_engine/transport/rc/ring_queue_pairs.h"

namespace jaxina::rc {

struct RingSocketOptions {
  std::string host = {};   // one IPv4 address of this host
  std::uint16_t port = 0;  // 0: any port. A neighbour that is a NIC sends only to kUdpPort
  std::size_t mtu = 0;     // 0: what the address's device carries
  double loss = 0;         // share of arriving packets to drop, for experiments
  std::uint64_t loss_seed = 0;
  std::uint32_t first_psn = 0;
  // Off: the kernel handles every packet separately. What stands in the path and sees frames needs that.
  bool offload = true;
  RequesterConfig requester = {.retries = {}};  // its timeout and retries are used
};

class SocketRing final : public RingQueuePairs {
 public:
  // Throws Error like RoceSocket, and Error(kSystem) if there is no thread left.
  SocketRing(const RingSocketOptions& options, const JobShape& shape);
  ~SocketRing() override;

  // Called once, before anything is sent. Throws Error(kInvalidArgument) if the ends do not fit.
  void connect(const roce::RingNeighbours& neighbours);

  std::unique_lock<std::mutex> hold() override { return std::unique_lock(mutex_); }
  Status flush() override;
  Status poll(std::vector<Arrival>& arrivals) override;
  void wait(Nanoseconds timeout) override;
  void interrupt() override { socket_->interrupt(); }
  // Until the next worker has everything, and then as long as the previous one may ask again: at most kLongestLinger.
  void linger() override;
  Counters counters() const override;

  static constexpr Nanoseconds kLongestLinger = 2'000'000'000;

 private:
  SocketRing(const RingSocketOptions& options, std::unique_ptr<roce::RoceSocket> socket, const JobShape& shape);
  void run();
  // Takes what has arrived, and sends what can be sent.
  void turn();
  void transmit(Nanoseconds time);
  bool is_connected() const { return !neighbours().next.qpns.empty(); }
  bool is_known(const roce::Headers& headers, const Address& from);
  // For how long there is nothing to do unless a packet arrives.
  Nanoseconds until_deadline(Nanoseconds longest) const;

  std::unique_ptr<roce::RoceSocket> socket_;
  Address next_, previous_;
  net::LossFilter loss_;
  std::uint64_t dropped_ = 0, rejected_ = 0;
  std::vector<Arrival> arrived_;  // that the worker has not taken
  Status failure_;
  Nanoseconds ack_timeout_;
  std::uint64_t requests_ = 0;  // that came from the previous worker

  std::mutex mutex_;
  std::atomic<bool> is_present_ = false;    // the worker's thread waits here
  std::atomic<Nanoseconds> last_seen_ = 0;  // when it was here
  net::FileDescriptor wakeup_;              // ends the wait of the device's thread
  std::condition_variable changed_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace jaxina::rc
