// The part of MPItrampoline's binary interface that XLA's MPI collectives use. XLA:CPU calls MPI through MPItrampoline,
// which loads the library that MPITRAMPOLINE_LIB names. jaxina is such a library, and sends the sums to the aggregator.
#pragma once

#include <cstdint>

#define JAXINA_MPI_EXPORT __attribute__((visibility("default")))

// A communicator, data type, operation or request, as wide as a pointer. MPI's constants are variables of the library.
using Handle = std::uintptr_t;

// The body of every MPI function that jaxina does not implement: fails with an error that names the function.
int not_provided(const char* name);
