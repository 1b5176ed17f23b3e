// LocalSum: sums a group that is within one process. Every chunk goes through the same worker arithmetic as elsewhere,
// but its result is available at once. So nothing is sent, shared or waited for. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "rdma_engine/worker/worker.h"

namespace jaxina {

class LocalSum {
 public:
  // All of shape.devices() contribute to every call. shape.slots() is the number of chunks in progress at a time for
  // tensors on devices; tensors in host memory always use one.
  explicit LocalSum(const JobShape& shape);
  ~LocalSum();

  // Sums on the calling thread. contributions[d] is that of device d; all have the same fingerprint. Throws Error if
  // the tensors have narrow words that this shape cannot have (kInvalidArgument), or if the devices that hold them
  // fail. After that they cannot be used any more. A sum of tensors on devices also ends with what `gives_up` returns,
  // if that is not ok, once the devices have done what they had begun.
  void run(std::vector<Collective> contributions, const std::function<Status()>& gives_up = {});
  // The same with the help of other threads, which start at the first call. Only for tensors in host memory. Throws
  // also Error(kSystem) if the threads cannot be started.
  void run_together(const std::vector<Collective>& contributions);

 private:
  class Lane;        // the state that one thread needs
  class ThreadTeam;  // the calling thread and the threads that work with it

  void run_on_devices(std::vector<Collective> contributions, const std::function<Status()>& gives_up);

  const JobShape shape_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::unique_ptr<Lane> device_lane_;
  std::unique_ptr<ThreadTeam> team_;
};

// Part `part` of `parts` of a collective. The parts are adjacent and consist of whole blocks, so summing all parts
// gives the same bits as summing the whole.
Collective part_of(const Collective& whole, std::size_t part, std::size_t parts, std::uint32_t block_size);

}  // namespace jaxina
