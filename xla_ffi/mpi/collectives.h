// MPI's collectives. A sum goes to the aggregator, if the running program's sums do. All else goes from process to
// process: each reduces one part of what is reduced, in the order of ranks, so all get the same bits. All block, and
// throw Error.
#pragma once

#include <cstddef>

#include "xla_ffi/mpi/communicator.h"
#include "xla_ffi/mpi/data_type.h"

namespace jaxina::mpi {

// `in` and `out`: `count` elements; they may be the same memory.
void all_reduce(const Communicator& communicator, const void* in, void* out, std::size_t count, Type type, Op op);

// `in`: `bytes` bytes; `out`: those of all processes, by rank. `in` may be the process's own place in `out`.
void all_gather(const Communicator& communicator, const void* in, void* out, std::size_t bytes);

// `in`: n x `count` elements; `out`: the `count` elements at the process's rank, reduced.
void reduce_scatter(const Communicator& communicator, const void* in, void* out, std::size_t count, Type type, Op op);

}  // namespace jaxina::mpi
