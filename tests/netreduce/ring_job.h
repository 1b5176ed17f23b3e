// The job of the ring between two guests.
#pragma once

#include "tests/netreduce/told_ends.h"
#include "tests/verbs/guest_workers.h"

namespace jaxina::guest {

inline JobSpec two_guests_job() { return job_of(kGuests, 5, 7); }

}  // namespace jaxina::guest
