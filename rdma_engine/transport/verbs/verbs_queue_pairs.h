// VerbsQueuePairs: the queue pairs of a real RDMA device (or Soft-RoCE) through libibverbs. They share one receive
// queue, so receives can be posted in batches, and one completion queue.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "rdma_engine/messages/message_memory.h"
#include "rdma_engine/messages/queue_pairs.h"
#include "rdma_engine/transport/verbs/completions.h"
#include "rdma_engine/transport/verbs/device.h"

namespace jaxina::verbs {

struct VerbsOptions {
  RdmaDevice device;
  std::string address;  // the device's address; empty: any
  std::size_t mtu = 0;  // bytes; 0: the port's MTU
  std::uint32_t first_psn = 0;
};

class VerbsQueuePairs final : public roce::QueuePairs {
 public:
  // Throws Error(kInvalidArgument) if there is no such device, Error(kSystem) if a call to it fails.
  VerbsQueuePairs(const VerbsOptions& options, std::size_t queues, std::size_t send_bytes, std::size_t receive_bytes);

  const roce::ConnectionEnd& local() const override { return local_; }
  void connect(const roce::ConnectionEnd& remote) override;
  std::span<std::uint8_t> send_memory() override { return send_.bytes(); }
  std::span<const std::uint8_t> receive_memory() const override { return receive_.bytes(); }
  bool adopt(const std::function<ExportedMemory()>& allocate) override;
  void post_write(std::size_t queue, std::span<const std::uint8_t> head, std::span<const std::uint8_t> tail,
                  std::uint64_t remote_address, std::uint32_t immediate) override;
  Status flush() override { return failure_; }
  Status poll(std::vector<Arrival>& arrivals) override;
  void wait(Nanoseconds timeout) override { completions_.wait(timeout); }
  void interrupt() override { completions_.interrupt(); }
  Status reset(std::size_t queue) override;
  Counters counters() const override { return counters_; }

 private:
  using SharedReceiveQueue = Handle<ibv_srq, ibv_destroy_srq>;
  using QueuePair = Handle<ibv_qp, ibv_destroy_qp>;

  void create_queues(std::size_t queues);
  int to_receive(std::size_t queue);
  int to_send(std::size_t queue, std::uint32_t psn);
  void post_receives(std::size_t count);

  Device device_;
  roce::MessageMemory send_, receive_;
  ExportedMemory adopted_;
  MemoryRegion send_region_, receive_region_, adopted_region_;
  Completions completions_;
  SharedReceiveQueue receives_;
  std::vector<QueuePair> queues_;
  std::vector<std::uint32_t> unfinished_;                    // per queue: writes posted but not completed
  std::unordered_map<std::uint32_t, std::size_t> queue_of_;  // by queue pair number
  std::size_t missing_receives_ = 0;
  roce::ConnectionEnd local_, remote_;
  Status failure_;
  Counters counters_;
};

}  // namespace jaxina::verbs
