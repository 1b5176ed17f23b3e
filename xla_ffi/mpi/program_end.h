// How a run of a program ends in this process, and what the other processes learn of it.
#pragma once

namespace jaxina::mpi {

// Ends the running program.
//
// `completed`: it has computed its results. With `compare` this process then waits for all the program's processes, and
// throws Error(kMismatch) unless they have made as many collective calls; one that waits for a message of another gets
// the same error. A run that is not completed makes the others' waiting end with an error.
void end_program(bool compare, bool completed);

}  // namespace jaxina::mpi
