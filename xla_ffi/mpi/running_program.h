// The compiled program that XLA is running in this process, and the names of its calls. Processes that run different
// programs, or are at different calls, give their calls different names. So they get an error instead of a wrong sum.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <mutex>
#include <vector>

#include "rdma_engine/errors.h"
#include "xla_ffi/mpi/peers.h"
#include "xla_ffi/precision.h"

namespace jaxina::mpi {

// The 64-bit FNV-1a hash of the values.
std::uint64_t hash_of(std::initializer_list<std::uint64_t> values);

class RunningProgram {
 public:
  // Begins a run. A process may have only one program with collectives under way at a time; the caller ensures that.
  // `identity`: equal in all processes that run the same program. `processes`: the ranks of these processes, ascending.
  // `carries_sums`: whether its sums go to the aggregator, except those of as many elements as one of `moved`.
  void begin(std::uint64_t identity, std::vector<int> processes, bool carries_sums, std::vector<std::uint64_t> moved,
             const Precision& precision);

  // Records a failure. Only the first one of a run is kept.
  void fail(const Status& status);

  struct End {
    Run run;
    std::uint64_t name;  // equal in all processes if and only if all have made the same number of collective calls
    Status failure;      // ok if none is recorded
    bool carries_sums;
  };
  End end();
  // Forgets how often each program has run, so that the next run of each is its first.
  void forget();

  std::uint64_t identity() const;  // of the program
  bool carries_sum(std::uint64_t count) const;
  Precision precision() const;
  std::vector<int> processes() const;
  // Returns the run. Processes that run the same program for the nth time have the same one.
  Run run() const;
  // Returns the name of the stream's next call. A stream is a sequence of calls whose order all its processes agree on.
  // Throws Error if no program is running.
  std::uint64_t next(std::uint64_t stream);
  std::uint64_t next_collective(std::uint64_t stream, std::uint64_t what);

 private:
  std::uint64_t name() const;
  std::uint64_t count(std::uint64_t stream);
  void check_running() const;

  mutable std::mutex mutex_;
  std::map<std::uint64_t, std::uint64_t> runs_;   // by identity
  std::map<std::uint64_t, std::uint64_t> calls_;  // of the run, by stream
  Run run_;
  std::uint64_t collectives_ = 0;  // calls of next_collective() in this run
  std::vector<int> processes_;
  Status failure_;
  bool carries_sums_ = false;
  std::vector<std::uint64_t> moved_;
  Precision precision_;
};

RunningProgram& running_program();

}  // namespace jaxina::mpi
