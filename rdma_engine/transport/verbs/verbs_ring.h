// VerbsRing: a ring's reliable queue pairs of an RDMA device (or Soft-RoCE) through libibverbs. The device does all the
// work of the connections, also while the worker is away.
#pragma once

#include <cstdint>
#include <deque>

#include "rdma_engine/messages/message_memory.h"
#include "rdma_engine/transport/rc/requester.h"
#include "rdma_engine/transport/rc/ring_link.h"
#include "rdma_engine/transport/verbs/completions.h"
#include "rdma_engine/transport/verbs/device.h"

namespace jaxina::verbs {

struct RingOptions {
  RdmaDevice device;
  std::string address;  // the device's address; empty: any
  std::size_t mtu = 0;  // bytes; 0: the port's MTU
  std::uint32_t first_psn = 0;
  // For how long a switch may hold packets for a late worker. They look lost to the device meanwhile, which sends them
  // again after each timeout. The connection must not end by that.
  Nanoseconds longest_hold = 0;
};

class VerbsRing final : public rc::RingLink {
 public:
  // Throws Error(kInvalidArgument) if there is no such device, Error(kSystem) if a call to it fails.
  VerbsRing(const RingOptions& options, const JobShape& shape);

  // qpns[0] sends, qpns[1] receives.
  const roce::ConnectionEnd& local() const { return local_; }
  // Called once, before anything is sent. Throws Error.
  void connect(const roce::RingNeighbours& neighbours);

  std::span<std::uint8_t> send_memory() override { return send_.bytes(); }
  std::span<const std::uint8_t> receive_memory() const override { return receive_.bytes(); }
  bool adopt(const std::function<ExportedMemory()>&) override { return false; }
  void post_write(std::size_t queue, std::span<const std::uint8_t> head, std::span<const std::uint8_t> tail,
                  std::uint64_t remote_address, std::uint32_t immediate) override;
  void post(const rc::RingPlace& place, std::span<const std::uint8_t> bytes, std::uint32_t fingerprint) override;
  std::span<std::uint8_t> at(const rc::RingPlace& place, std::size_t bytes) override;
  Status flush() override;
  Status poll(std::vector<Arrival>& arrivals) override;
  void wait(Nanoseconds timeout) override { completions_.wait(timeout); }
  void interrupt() override { completions_.interrupt(); }
  Status reset(std::size_t queue) override;
  const Status& ended() const override { return ended_; }
  void linger() override;
  Counters counters() const override { return counters_; }

 private:
  using QueuePair = Handle<ibv_qp, ibv_destroy_qp>;
  struct Posted {
    std::span<const std::uint8_t> bytes;
    std::uint64_t address;
    std::uint32_t immediate;
  };

  QueuePair create();
  void connect_pair(ibv_qp* pair, const roce::ConnectionEnd& remote, std::uint32_t qpn, std::uint32_t psn);
  void post_receives(std::uint32_t count);
  bool post_now(const Posted& posted);

  Device device_;
  rc::RingMemory layout_;
  roce::MessageMemory send_, receive_;
  MemoryRegion send_region_, receive_region_;
  Completions completions_;
  QueuePair sender_, receiver_;
  std::uint8_t timeout_;
  roce::ConnectionEnd local_;
  roce::RingNeighbours neighbours_;
  std::deque<Posted> posted_;     // that the device has no room for yet
  std::uint32_t unfinished_ = 0;  // writes that the device has
  Status failure_, ended_;
  Counters counters_;
};

}  // namespace jaxina::verbs
