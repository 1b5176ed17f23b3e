// The processes of a job as MPI sees them, one device each, and groups of them.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "rdma_engine/engine/engine.h"

namespace jaxina::mpi {

struct World {
  int rank = 0;
  int size = 1;
  std::function<Group()> devices;  // global device ids by rank; called once JAX has its devices, throws Error
};

// Says which process this is, before XLA asks.
void set_world(World world);
const World& world();

class Communicator {
 public:
  // All processes of the world call it with a color; those with the same one become a communicator, ordered by key, then
  // rank. Throws Error.
  static Communicator split(int color, int key);

  Communicator(Group group, int rank) : group_(std::move(group)), rank_(rank) {}

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(group_.size()); }

  // Sums the tensor over the communicator; blocks until the sum is there, at most the engine's timeout. `call` names what
  // the processes do: those that do different things get kMismatch. Throws Error.
  void sum(const Tensor& tensor, std::uint64_t call) const;

 private:
  Group group_;
  int rank_;
};

}  // namespace jaxina::mpi
