// MPI's collectives. A sum goes to the aggregator if the running program's sums are carried. Everything else goes in
// messages from process to process. There each process reduces one part of the operands, in the order of ranks, so all
// processes get the same bits. All functions block until the result is there, and throw Error.
#pragma once

#include <cstddef>

#include "xla_ffi/mpi/communicator.h"
#include "xla_ffi/mpi/data_type.h"

namespace jaxina::mpi {

// `in` and `out` have `count` elements and may be the same memory.
void all_reduce(const Communicator& communicator, const void* in, void* out, std::size_t count, Type type, Op op);

// `in` has `bytes` bytes; `out` gets those of all processes, by rank. `in` may be the process's own place in `out`.
void all_gather(const Communicator& communicator, const void* in, void* out, std::size_t bytes);

// `in` has n x `count` elements. `out` gets the `count` elements at the process's rank, reduced over all processes.
void reduce_scatter(const Communicator& communicator, const void* in, void* out, std::size_t count, Type type, Op op);

}  // namespace jaxina::mpi
