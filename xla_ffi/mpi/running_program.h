// The program of XLA's that is running in this process, and the names of the calls that come out of it. Processes that
// run different programs, or are at different calls, give their calls different names, and get an error instead of a
// sum.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "rdma_engine/errors.h"

namespace jaxina::mpi {

// FNV-1a.
std::uint64_t hash_of(std::initializer_list<std::uint64_t> values);

class RunningProgram {
 public:
  // The process has one program of this kind under way at a time; who runs it sees to that. `identity` is equal in all
  // processes that run the same program; they are `processes`, by rank. `carries_sums`: whether its sums go to the
  // aggregator; `bits`: how many a float of at most 32 bits has there.
  void begin(std::uint64_t identity, std::vector<int> processes, bool carries_sums, std::int64_t bits);

  struct Failure {
    Status status;
    bool known;  // whether the other processes have got an error, too
  };
  // The first failure of a run counts.
  void fail(const Status& status, bool known);

  struct End {
    std::uint64_t run;
    std::uint64_t name;  // equal in all processes if they have made as many collective calls
    std::optional<Failure> failure;
  };
  End end();
  // All programs begin with their first run again.
  void forget();

  std::uint64_t identity() const;
  bool carries_sums() const;
  std::int64_t bits() const;
  std::vector<int> processes() const;
  // Name of the run: equal in all processes that run the same program for the nth time.
  std::uint64_t run() const;
  // Name of the next call of a stream, whose calls come in an order that all its processes agree on. Throws Error if no
  // program is running.
  std::uint64_t next(std::uint64_t stream);
  std::uint64_t next_collective(std::uint64_t stream, std::uint64_t what);

 private:
  std::uint64_t count(std::uint64_t stream);
  void check_running() const;

  mutable std::mutex mutex_;
  std::map<std::uint64_t, std::uint64_t> runs_;   // by identity
  std::map<std::uint64_t, std::uint64_t> calls_;  // of the run, by stream
  std::uint64_t identity_ = 0, run_ = 0;
  std::uint64_t collectives_ = 0;  // of the run
  std::vector<int> processes_;
  std::optional<Failure> failure_;
  bool carries_sums_ = false;
  std::int64_t bits_ = 32;
};

RunningProgram& running_program();

}  // namespace jaxina::mpi
