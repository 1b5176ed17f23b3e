// FrameSwitch: a transparent switch between network interfaces of this host, on a thread of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "rdma_engine/messages/connection_end.h"
#include "rdma_engine/shape/job_shape.h"
#include "rdma_engine/switch/data_thread.h"
#include "rdma_engine/switch/frame_engine.h"

namespace jaxina {

class FrameSwitch {
 public:
  // The names of two interfaces or more. Throws Error(kInvalidArgument, kSystem).
  explicit FrameSwitch(const std::vector<std::string>& interfaces);

  // From now on adds what the ring's workers send. ends[i] is worker i's, all with one MTU. Throws
  // Error(kInvalidArgument) if the ring cannot be, Error(kJobRejected) if there is such a job or such a connection.
  void add_ring(std::uint32_t job, const JobShape& shape, std::span<const roce::ConnectionEnd> ends);
  // From now on the ring's packets pass as they are. Does nothing if there is none.
  void remove_ring(std::uint32_t job);
  SwitchCounters statistics();
  void stop() { thread_.reset(); }

 private:
  // Runs command() on the thread. Throws Error(kSystem) if it does not answer, Error(kShutDown) after stop().
  template <typename Command>
  auto on_thread(Command command);

  FrameEngine engine_;
  std::unique_ptr<DataThread> thread_;
};

}  // namespace jaxina
