// Shapes with blocks of any size, however small, for tests with types of one word.
#pragma once

#include "rdma_engine/shape/job_shape.h"

namespace jaxina::testing {

struct SmallShape {
  std::uint32_t slots;
  std::uint32_t block_size;
  std::uint32_t blocks_per_chunk;
  bool whole_chunks = false;

  JobShape of(std::uint32_t workers) const {
    return JobShape({.devices = workers,
                     .workers = workers,
                     .slots = slots,
                     .block_size = block_size,
                     .blocks_per_chunk = blocks_per_chunk,
                     .whole_chunks = whole_chunks,
                     .widest_element = 1});
  }
};

}  // namespace jaxina::testing
