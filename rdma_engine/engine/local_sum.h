// The sum of a group that lies in one process: every chunk goes through the same worker arithmetic as elsewhere, but
// its result is there at once, so nothing is sent, shared or waited for.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "rdma_engine/worker/worker.h"

namespace jaxina {

class LocalSum {
 public:
  // All of shape.devices() contribute to every call. shape.slots(): how many chunks are under way where the
  // tensors lie on devices; one is enough elsewhere.
  explicit LocalSum(const JobShape& shape);
  ~LocalSum();

  // Sums on the calling thread. contributions[d] is device d's; all have the same fingerprint. Throws Error if the
  // devices that the tensors lie on fail; then nothing can be summed any more.
  void run(std::vector<Collective> contributions);
  // The same with the help of other threads, which start at the first call, for tensors of this processor's. Throws
  // Error(kSystem) if they cannot be started.
  void run_together(const std::vector<Collective>& contributions);

 private:
  class Lane;  // what one thread needs
  class Crew;  // the threads

  void run_on_devices(std::vector<Collective> contributions);

  const JobShape shape_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::unique_ptr<Lane> device_lane_;
  std::unique_ptr<Crew> crew_;
};

// Part `part` of `parts` of a collective, which lie next to one another: whole blocks, so that summing all parts gives
// the bits of summing the whole.
Collective part_of(const Collective& whole, std::size_t part, std::size_t parts, std::uint32_t block_size);

}  // namespace jaxina
