// JobSpec: what an aggregator must know about a job.
#pragma once

#include <cstdint>
#include <optional>

#include "rdma_engine/encryption/job_key.h"
#include "rdma_engine/shape/job_shape.h"

namespace jaxina {

struct JobSpec {
  std::uint32_t job = 0;
  std::uint64_t secret = 0;
  JobShape shape;
  std::uint32_t first_epoch = 0;   // the first pass of every slot; see AggregatorOptions
  std::optional<JobKey> key = {};  // if the job's datagrams are encrypted
};

}  // namespace jaxina
