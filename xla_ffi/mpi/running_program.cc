// Names runs and calls by hashing what all processes of the program know alike.
#include "xla_ffi/mpi/running_program.h"

#include <algorithm>
#include <utility>

#include "rdma_engine/errors.h"

namespace jaxina::mpi {

std::uint64_t hash_of(std::initializer_list<std::uint64_t> values) {
  std::uint64_t hash = 14695981039346656037u;
  for (const std::uint64_t value : values) {
    for (int shift = 0; shift < 64; shift += 8) hash = (hash ^ (value >> shift & 0xff)) * 1099511628211u;
  }
  return hash;
}

void RunningProgram::begin(std::uint64_t identity, std::vector<int> processes, bool carries_sums,
                           std::vector<std::uint64_t> moved, const Precision& precision) {
  const std::lock_guard lock(mutex_);
  run_ = {identity, ++runs_[identity]};
  processes_ = std::move(processes);
  carries_sums_ = carries_sums;
  moved_ = std::move(moved);
  precision_ = precision;
  collectives_ = 0;
  calls_.clear();
  failure_ = {};
}

void RunningProgram::fail(const Status& status) {
  const std::lock_guard lock(mutex_);
  if (failure_.ok()) failure_ = status;
}

RunningProgram::End RunningProgram::end() {
  const std::lock_guard lock(mutex_);
  processes_.clear();
  return {run_, hash_of({name(), collectives_}), failure_, carries_sums_};
}

void RunningProgram::forget() {
  const std::lock_guard lock(mutex_);
  runs_.clear();
}

std::uint64_t RunningProgram::identity() const {
  const std::lock_guard lock(mutex_);
  return run_.program;
}

bool RunningProgram::carries_sum(std::uint64_t count) const {
  const std::lock_guard lock(mutex_);
  return carries_sums_ && std::find(moved_.begin(), moved_.end(), count) == moved_.end();
}

Precision RunningProgram::precision() const {
  const std::lock_guard lock(mutex_);
  return precision_;
}

std::vector<int> RunningProgram::processes() const {
  const std::lock_guard lock(mutex_);
  check_running();
  return processes_;
}

Run RunningProgram::run() const {
  const std::lock_guard lock(mutex_);
  return run_;
}

std::uint64_t RunningProgram::next(std::uint64_t stream) {
  const std::lock_guard lock(mutex_);
  return hash_of({name(), count(stream)});
}

std::uint64_t RunningProgram::next_collective(std::uint64_t stream, std::uint64_t what) {
  const std::lock_guard lock(mutex_);
  ++collectives_;
  return hash_of({name(), count(stream), what});
}

// The name of the run.
std::uint64_t RunningProgram::name() const { return hash_of({run_.program, run_.number}); }

std::uint64_t RunningProgram::count(std::uint64_t stream) {
  check_running();
  return ++calls_[stream];
}

void RunningProgram::check_running() const {
  if (processes_.empty()) {
    throw Error(ErrorCode::kNotInitialized, "XLA runs a program with collectives that jaxina was not told of");
  }
}

RunningProgram& running_program() {
  static RunningProgram program;
  return program;
}

}  // namespace jaxina::mpi
