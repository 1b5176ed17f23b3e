// Turns a device's tasks into calls of the GPU's kernels. It does not need CUDA, so tests run it without a GPU.
#pragma once

#include <span>

#include "cuda_kernels/block_fixed_point.h"
#include "rdma_engine/worker/tensor_device.h"

namespace jaxina {

// Queues the tasks on the stream, with as few kernels as possible. `tasks` must be sorted by kind_of(). All tasks of
// one kind must have the same order of words (host or network).
Status queue_tasks(cuda::Stream stream, const DeviceFormat& format, std::span<const DeviceTask> tasks);

}  // namespace jaxina
