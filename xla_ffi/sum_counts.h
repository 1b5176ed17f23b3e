// How many numbers the sums of each program have put into words so far, in this process.
#pragma once

#include <cstdint>
#include <map>

#include "rdma_engine/worker/tensor.h"

namespace jaxina {

struct SumCounts {
  std::uint64_t floats = 0;           // a complex number is two
  std::uint64_t rounded_to_zero = 0;  // of them; see Collective::rounded_to_zero
};

// Counts the collective's floats under this name, and lets the collective count there which of them become zero.
void count_sum(std::uint64_t name, Collective& collective);

// By name.
std::map<std::uint64_t, SumCounts> sum_counts();

}  // namespace jaxina
