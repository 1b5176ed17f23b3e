// The processes of a job as MPI sees them, one device each, and groups of them.
#pragma once

#include <cstdint>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rdma_engine/engine/engine.h"
#include "xla_ffi/mpi/peers.h"

namespace jaxina::mpi {

struct World {
  int rank = 0;
  int size = 1;
  std::function<Group()> devices;  // global device ids by rank; called once JAX has its devices, throws Error
  std::string host;                // this process's numeric address
  // Tells the others where this process takes messages, and returns where all do, by rank. Throws Error.
  std::function<std::vector<Endpoint>(const Endpoint& own)> endpoints;
  std::function<bool(int rank)> ended;  // whether a process is known to have ended
  Nanoseconds timeout = 0;              // of a message
};

// Says which process this is, before XLA asks.
void set_world(World world);
const World& world();
// Connects to the other processes when first asked. Throws Error.
Peers& peers();

class Communicator {
 public:
  // All processes of the world call it with a color; those with the same one become a communicator, ordered by key, then
  // rank. Throws Error.
  static Communicator split(int color, int key);

  // `ranks`: in the world, of the processes in the group's order.
  Communicator(Group group, std::vector<int> ranks, int rank)
      : group_(std::move(group)), ranks_(std::move(ranks)), rank_(rank) {}

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(group_.size()); }

  // Sums the tensor over the communicator; blocks until the sum is there, at most the engine's timeout. `call` names what
  // the processes do: those that do different things get kMismatch. Throws Error.
  void sum(const Tensor& tensor, std::uint64_t call) const;

  // Messages within the communicator; ranks are those in it. See Peers.
  std::shared_ptr<Peers::Receive> post(int from, int tag, void* data, std::size_t bytes) const;
  void send(int to, int tag, const void* data, std::size_t bytes) const;

 private:
  std::uint64_t channel(int tag) const;
  int in_world(int rank) const;

  Group group_;
  std::vector<int> ranks_;
  int rank_;
};

}  // namespace jaxina::mpi
