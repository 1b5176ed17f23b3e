// Workload: what the workers of one job sum in a simulation, and the expected results, bit for bit. The results are
// computed independently of the project's codec: one element at a time, with 64-bit integers and the C library's frexp
// and ldexp.
#pragma once

#include <cstdint>
#include <vector>

#include "rdma_engine/sim/narrow_sum.h"
#include "rdma_engine/sim/plan.h"
#include "rdma_engine/worker/tensor.h"

namespace jaxina::sim {

// The expected sum of float32 (in blocks of `block_size` elements) or int32. inputs[w] belongs to worker w.
Words expected_sum(ElementType type, const std::vector<Words>& inputs, std::size_t block_size);

// Whether the bits are equal. All NaNs count as equal.
bool equal_bits(ElementType type, std::uint32_t a, std::uint32_t b);

class Workload {
 public:
  Workload(const JobPlan& plan, Random& random);

  std::size_t collectives() const { return collectives_.size(); }
  // The collective as worker w submits it. Its memory belongs to the workload.
  Collective collective(std::size_t index, std::uint32_t worker);
  // Whether worker w's outputs are correct and nothing next to them was overwritten.
  bool is_exact(std::size_t index, std::uint32_t worker) const;

 private:
  struct WorkTensor {
    ElementType type;
    std::size_t count;
    bool in_place;
    numerics::WireWord word = numerics::WireWord::kInt32;
    Words expected;
    std::vector<Words> in;  // per worker
    // Per worker, with one guard word before and one after; if in place, these hold the input too.
    std::vector<Words> out;
  };
  struct WorkCollective {
    std::vector<WorkTensor> tensors;
    numerics::Rounding rounding = {};  // of narrow words
  };
  void draw_narrow(WorkCollective& collective, Random& random);
  void expect(WorkCollective& collective, const JobShape& shape);

  std::vector<WorkCollective> collectives_;
};

}  // namespace jaxina::sim
