// A device's tasks as calls of the GPU's kernels. Needs nothing of CUDA's, so that tests run it without a GPU.
#pragma once

#include <span>

#include "cuda_kernels/block_fixed_point.h"
#include "rdma_engine/worker/tensor_device.h"

namespace jaxina {

// Queues on the stream what the tasks ask for, as few kernels as they allow. tasks: ordered by work, then by type;
// their order of words is the same for all of one work.
Status queue_tasks(cuda::Stream stream, const DeviceFormat& format, std::span<const DeviceTask> tasks);

}  // namespace jaxina
