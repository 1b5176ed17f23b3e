// What the workers of one job sum in a simulation, and what must come out, bit for bit: computed apart from the
// project's codec, one element at a time with 64-bit integers and the C library's frexp and ldexp.
#pragma once

#include <cstdint>
#include <vector>

#include "rdma_engine/sim/plan.h"
#include "rdma_engine/worker/tensor.h"

namespace jaxina::sim {

// A tensor's values as 32-bit patterns.
using Words = std::vector<std::uint32_t>;

// float32 by blocks of `block_size` elements, or int32; inputs[w] belongs to worker w.
Words expected_sum(ElementType type, const std::vector<Words>& inputs, std::size_t block_size);

// Equal bits, but every NaN is as good as another.
bool equal_bits(ElementType type, std::uint32_t a, std::uint32_t b);

class Workload {
 public:
  Workload(const JobPlan& plan, Random& random);

  std::size_t collectives() const { return collectives_.size(); }
  // The collective as worker w submits it; the memory belongs to the workload.
  Collective collective(std::size_t index, std::uint32_t worker);
  // Whether worker w's outputs are right and nothing beside them was written.
  bool is_exact(std::size_t index, std::uint32_t worker) const;

 private:
  struct WorkTensor {
    ElementType type;
    std::size_t count;
    bool in_place;
    Words expected;
    std::vector<Words> in;   // per worker
    std::vector<Words> out;  // per worker, one guard word before and after; in place these hold the input too
  };
  std::vector<std::vector<WorkTensor>> collectives_;
};

}  // namespace jaxina::sim
