// Ends a run: compares the processes' numbers of calls, or makes the others' waiting fail.
#include "xla_ffi/mpi/program_end.h"

#include <cstdint>
#include <string>

#include "rdma_engine/engine/engine.h"
#include "xla_ffi/mpi/communicator.h"
#include "xla_ffi/mpi/running_program.h"

namespace jaxina::mpi {
namespace {

constexpr std::uint64_t kFailedRun = 0x6661696c6564;

void give_up(const Communicator& all, const RunningProgram::End& end) {
  const ErrorCode code = end.failure.ok() ? ErrorCode::kWorkerLost : end.failure.code;
  if (has_peers()) peers().give_up(all.ranks(), end.run, code);
  if (Engine::instance().running()) {
    Communicator::abort_sums({code, "process " + std::to_string(world().rank) +
                                        " has given up a program while it was needed for a sum: its own error says "
                                        "why"});
    all.fail_sums_of_others(hash_of({end.run.program, end.run.number, kFailedRun}), end.carries_sums);
  }
}

}  // namespace

void end_program(bool compare, bool completed) {
  const Communicator all = Communicator::all();
  const RunningProgram::End end = running_program().end();
  if (has_peers()) peers().forget(end.run);
  if (all.size() < 2) return;
  if (!completed) {
    give_up(all, end);
  } else if (compare) {
    peers().end(all.ranks(), end.run);
    if (Engine::instance().running()) {
      std::int32_t nothing = 0;
      all.sum({ElementType::kInt32, 1, &nothing, &nothing}, end.name);
    }
  }
}

}  // namespace jaxina::mpi
