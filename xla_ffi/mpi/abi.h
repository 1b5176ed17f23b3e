// The part of MPItrampoline's binary interface that XLA's MPI collectives use. XLA:CPU calls MPI through MPItrampoline,
// which loads whatever library MPITRAMPOLINE_LIB names; ours sends the sums to the aggregator.
#pragma once

#include <cstdint>

#define JAXINA_MPI_EXPORT __attribute__((visibility("default")))

// Communicators, data types, operations and requests, as wide as a pointer. A constant is a variable of the library.
using Handle = std::uintptr_t;

// Fails, for an MPI function that XLA calls and jaxina does not have.
int not_provided(const char* name);
