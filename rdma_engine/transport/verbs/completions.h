// Completions: the completion queue of an RDMA device's queue pairs, and waiting for what it says.
#pragma once

#include <cstddef>

#include "rdma_engine/base/time.h"
#include "rdma_engine/net/udp_socket.h"
#include "rdma_engine/transport/verbs/device.h"

namespace jaxina::verbs {

class Completions {
 public:
  // The device must outlive this object. Throws Error(kSystem).
  Completions(const Device& device, std::size_t entries);

  ibv_cq* queue() { return queue_.get(); }

  // Sleeps until something may have completed, interrupt() is called, or the timeout passes.
  void wait(Nanoseconds timeout);
  void interrupt();  // thread-safe

 private:
  using Channel = Handle<ibv_comp_channel, ibv_destroy_comp_channel>;
  using Queue = Handle<ibv_cq, ibv_destroy_cq>;
  void acknowledge_events();

  Channel channel_;
  net::FileDescriptor wakeup_;
  Queue queue_;
  bool notified_ = false;  // an event was requested, so the queue will raise one
};

}  // namespace jaxina::verbs
