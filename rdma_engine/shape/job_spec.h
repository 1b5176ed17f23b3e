// A job as an aggregator must know it.
#pragma once

#include <cstdint>

#include "rdma_engine/shape/job_shape.h"

namespace jaxina {

struct JobSpec {
  std::uint32_t job = 0;
  std::uint64_t secret = 0;
  JobShape shape;
  std::uint32_t first_epoch = 0;  // see AggregatorOptions
};

}  // namespace jaxina
