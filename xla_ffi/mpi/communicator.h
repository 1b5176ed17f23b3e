// The processes of a job as MPI sees them, one device each, and groups of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rdma_engine/engine/engine.h"
#include "xla_ffi/mpi/peers.h"

namespace jaxina::mpi {

struct World {
  int rank = 0;
  int size = 1;
  // Global device ids by rank, in a stream of their own; called once JAX has its devices. Throws Error.
  std::function<Group()> devices;
  std::string host;  // this process's numeric address
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
bool has_peers();

using Bytes = std::span<const std::byte>;
using WritableBytes = std::span<std::byte>;

class Communicator {
 public:
  // All processes of the running program, by rank.
  static Communicator all();
  // All processes of the running program call it with a color; those with the same one become a communicator, ordered
  // by key, then rank. Throws Error.
  static Communicator split(int color, int key);

  // `ranks`: in the world, of the processes in the communicator's order. `rank`: this process's place in it.
  Communicator(std::vector<int> ranks, int rank) : ranks_(std::move(ranks)), rank_(rank) {}

  int rank() const { return rank_; }
  const std::vector<int>& ranks() const { return ranks_; }
  int size() const { return static_cast<int>(ranks_.size()); }

  // Sums the tensor in the aggregator; blocks until the sum is there, at most the engine's timeout. Processes that call
  // it with different names get kMismatch. Throws Error.
  void sum(const Tensor& tensor, std::uint64_t name) const;
  // Makes the others' sum, under way or next, a kMismatch. Returns when they have one, or after a few seconds.
  void spoil_sum(std::uint64_t name) const;
  // The name of the next collective, of which `what` says what it does.
  std::uint64_t next_collective(std::uint64_t what) const;

  // Messages of programs; ranks are places in the communicator. See Peers.
  std::shared_ptr<Peers::Receive> post(int from, int tag, void* data, std::size_t bytes) const;
  void send(int to, int tag, const void* data, std::size_t bytes) const;
  // Sends each process a part, and takes one from each, by rank. All processes call it with the same name. The parts of
  // `in` lie apart from those of `out`. Throws Error.
  void exchange(const std::vector<Bytes>& out, const std::vector<WritableBytes>& in, std::uint64_t name) const;

 private:
  enum class Direction : std::uint64_t { kIn, kOut };

  std::uint64_t channel(int tag) const;
  Call call(int tag, Direction direction, int other) const;
  int in_world(int rank) const;

  std::vector<int> ranks_;
  int rank_;
};

}  // namespace jaxina::mpi
