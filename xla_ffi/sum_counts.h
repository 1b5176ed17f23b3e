// Counts, for each program of this process, the floats that its sums have turned into words so far.
#pragma once

#include <cstdint>
#include <map>

#include "rdma_engine/worker/tensor.h"

namespace jaxina {

struct SumCounts {
  std::uint64_t floats = 0;           // a complex number counts as two
  std::uint64_t rounded_to_zero = 0;  // how many of these became zero; see Collective::rounded_to_zero
};

// Counts the collective's floats under this name, and sets `collective.rounded_to_zero` so that the collective counts
// under the same name those that become zero.
void count_sum(std::uint64_t name, Collective& collective);

// All counts so far, by name.
std::map<std::uint64_t, SumCounts> sum_counts();

}  // namespace jaxina
