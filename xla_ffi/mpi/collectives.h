// MPI's collectives over jaxina's all-reduce. A sum goes to the aggregator as it is. The others become a sum of integers
// in which every process fills its own place and leaves zeros in the rest: exact for every type, for n times the bytes.
// All block, and throw Error.
#pragma once

#include <cstddef>

#include "xla_ffi/mpi/communicator.h"
#include "xla_ffi/mpi/data_type.h"

namespace jaxina::mpi {

// `in` and `out`: `count` elements; they may be the same memory.
void all_reduce(const Communicator& communicator, const void* in, void* out, std::size_t count, Type type, Op op);

// `in`: `bytes` bytes; `out`: those of all processes, by rank.
void all_gather(const Communicator& communicator, const void* in, void* out, std::size_t bytes);

// `in`: n x `count` elements; `out`: the `count` elements at the process's rank, reduced.
void reduce_scatter(const Communicator& communicator, const void* in, void* out, std::size_t count, Type type, Op op);

}  // namespace jaxina::mpi
