// Ends a run of a program in this process, and tells the other processes.
#pragma once

namespace jaxina::mpi {

// Ends the running program. `completed` says whether it has computed its results.
//
// If it has, and `compare` is set, this process waits for all processes of the program. It throws Error(kMismatch)
// unless all have made the same number of collective calls. A process that still waits for a message of another gets
// the same error.
//
// If it has not, this process's waiting for the others, in calls that XLA still makes, and theirs for this one end with
// an error. Calls that XLA makes later fail, until another run begins.
void end_program(bool compare, bool completed);

}  // namespace jaxina::mpi
