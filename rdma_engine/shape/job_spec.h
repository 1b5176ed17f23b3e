// JobSpec: what an aggregator must know about a job.
#pragma once

#include <cstdint>

#include "rdma_engine/shape/job_shape.h"

namespace jaxina {

struct JobSpec {
  std::uint32_t job = 0;
  std::uint64_t secret = 0;
  JobShape shape;
  std::uint32_t first_epoch = 0;  // the first pass of every slot; see AggregatorOptions
};

}  // namespace jaxina
