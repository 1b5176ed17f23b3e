// MPI's communicators: ordered groups of the job's processes, with one device each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rdma_engine/engine/engine.h"
#include "xla_ffi/mpi/peers.h"

namespace jaxina::mpi {

// What the MPI library knows of the job.
struct World {
  int rank = 0;
  int size = 1;
  // Returns the global device ids of all processes by rank, as ids of the second stream (engine.h). Called only when
  // JAX has its devices. Throws Error.
  std::function<Group()> devices;
  std::string host;                  // this process's numeric address
  std::vector<std::uint16_t> ports;  // where it may listen; empty: the system chooses
  // Tells the other processes where this one takes messages, and returns where each takes them, by rank. Throws Error.
  std::function<std::vector<Endpoint>(const Endpoint& own)> endpoints;
  std::function<bool(int rank)> ended;  // whether a process is known to have ended
  Nanoseconds timeout = 0;              // for one message
};

// Sets the job and this process's place in it. Must be called before XLA uses MPI.
void set_world(World world);
const World& world();
// Returns the connections to the other processes; the first call makes them. Throws Error.
Peers& peers();
// Whether peers() has been called since set_world().
bool has_peers();

using Bytes = std::span<const std::byte>;
using WritableBytes = std::span<std::byte>;

class Communicator {
 public:
  // Returns the communicator of all processes of the running program, by rank.
  static Communicator all();
  // MPI_Comm_split: all processes of the running program call it, each with a color. Those with the same color become a
  // communicator, ordered by key, then rank. Throws Error.
  static Communicator split(int color, int key);

  // `ranks`: the processes' ranks in the world, in the communicator's order. `rank`: this process's place in `ranks`.
  Communicator(std::vector<int> ranks, int rank) : ranks_(std::move(ranks)), rank_(rank) {}

  int rank() const { return rank_; }
  const std::vector<int>& ranks() const { return ranks_; }
  int size() const { return static_cast<int>(ranks_.size()); }

  // Sums the tensor in the aggregator. Blocks until the sum is there, at most for the engine's timeout. Processes that
  // call it with different names get kMismatch. Throws Error.
  void sum(const Tensor& tensor, std::uint64_t name) const;
  // Makes the other processes' current or next sum fail with kMismatch, by joining it with a `name` that no sum has: in
  // this communicator, and with `parts` in all that split() has made of its processes for this one. Returns when that
  // has happened, or after 10 seconds.
  void fail_sums_of_others(std::uint64_t name, bool parts) const;
  // Ends the sums that this process waits for, in all communicators, here and in the other processes.
  static void abort_sums(const Status& reason);
  // Returns the name of the communicator's next collective. `what`: a hash of what the collective does.
  std::uint64_t next_collective(std::uint64_t what) const;

  // Messages of the program. `from` and `to` are places in the communicator. See Peers.
  std::shared_ptr<Peers::Receive> post(int from, int tag, void* data, std::size_t bytes) const;
  void send(int to, int tag, const void* data, std::size_t bytes) const;
  // Sends out[i] to the process at place i, and receives in[i] from it. All processes call it with the same name. The
  // parts of `in` and `out` must not overlap. Throws Error.
  void exchange(const std::vector<Bytes>& out, const std::vector<WritableBytes>& in, std::uint64_t name) const;

 private:
  enum class Direction : std::uint64_t { kIn, kOut };

  static Communicator of_this_process(std::vector<int> ranks);
  std::future<void> fail_sum_of_others(std::uint64_t name) const;
  std::uint64_t channel(int tag) const;
  Call call(int tag, Direction direction, int other) const;
  int in_world(int rank) const;

  std::vector<int> ranks_;
  int rank_;
};

}  // namespace jaxina::mpi
