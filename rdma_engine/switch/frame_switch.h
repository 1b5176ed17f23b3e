// FrameSwitch: a transparent switch between network interfaces of this host, on a thread of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rdma_engine/messages/connection_end.h"
#include "rdma_engine/shape/job_shape.h"
#include "rdma_engine/switch/data_thread.h"
#include "rdma_engine/switch/frame_engine.h"
#include "rdma_engine/switch/pool_room.h"

namespace jaxina {

// Where the switch stands if the workers are in racks, each with a switch of its own.
struct RingRacks {
  std::vector<std::uint32_t> of_worker = {};  // per worker; empty: there are no racks
  std::optional<std::uint32_t> own = {};      // the rack whose switch this is; without, it is the one above them
};

// Thread-safe. The methods wait for the data thread, for a limited time. They throw Error(kSystem) if it does not
// answer, and Error(kShutDown) after stop().
class FrameSwitch {
 public:
  // The names of two interfaces or more. Throws Error(kInvalidArgument, kSystem).
  explicit FrameSwitch(const std::vector<std::string>& interfaces);

  // From now on adds what the ring's workers send. ends[i] is worker i's, all with one MTU. If all workers are in one
  // rack, its switch adds alone, and the one above must not be told. Throws Error(kInvalidArgument) if the ring cannot
  // be, Error(kJobRejected) if there is such a job or such a connection, or if memory is short.
  void add_ring(std::uint32_t job, const JobShape& shape, std::span<const roce::ConnectionEnd> ends,
                const RingRacks& racks = {});
  // The bytes that such a ring takes here. Throws Error(kInvalidArgument) if the ring cannot be.
  static std::size_t ring_bytes(const JobShape& shape, std::span<const roce::ConnectionEnd> ends,
                                const RingRacks& racks = {});
  // From now on the ring's packets pass as they are. Does nothing if there is none.
  void remove_ring(std::uint32_t job);
  SwitchCounters statistics();
  void stop();

 private:
  // Runs command() on the thread, and waits for it. The caller must hold mutex_.
  template <typename Command>
  auto on_thread(Command command);

  std::mutex mutex_;  // one command at a time
  PoolRoom room_;
  FrameEngine engine_;
  std::unique_ptr<DataThread> thread_;
};

}  // namespace jaxina
