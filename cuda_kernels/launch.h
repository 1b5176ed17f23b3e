// Launches kernels; for .cu files only.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>

#include "cuda_kernels/plan.h"

namespace jaxina::cuda {

// Returns the calling thread's group and lane.
__device__ inline Lane this_lane(std::uint32_t log2_lanes) {
  return lane_of(std::uint64_t{blockIdx.x} * kThreads + threadIdx.x, log2_lanes);
}

// Returns the largest value in the group to each of its threads. All threads of the warp must call it.
__device__ inline std::uint32_t group_maximum(std::uint32_t value, std::uint32_t lanes) {
  for (std::uint32_t distance = lanes / 2; distance > 0; distance /= 2) {
    value = max(value, __shfl_xor_sync(0xffffffffu, value, distance));
  }
  return value;
}

inline Status to_status(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return {};
  return {ErrorCode::kGpu, std::string(what) + ": " + cudaGetErrorString(error) + " (" + cudaGetErrorName(error) + ")"};
}

// Queues `kernel` with `groups` groups of 2^log2_lanes threads. Does nothing if there are no groups.
template <class... Jobs>
Status launch(void (*kernel)(Jobs...), Stream stream, std::uint64_t groups, std::uint32_t log2_lanes, Jobs... jobs) {
  if (groups == 0) return {};
  void* arguments[] = {&jobs...};
  const cudaError_t error =
      cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(thread_blocks(groups, log2_lanes)), dim3(kThreads),
                       arguments, 0, stream);
  return to_status(error, "launching a block-fixed-point kernel");
}

// Returns batch b of the runs: kMaxRuns of them, or what is left.
template <class Run>
std::span<const Run> batch(std::span<const Run> runs, std::size_t b) {
  const std::size_t first = std::min(b * kMaxRuns, runs.size());
  return runs.subspan(first, std::min(kMaxRuns, runs.size() - first));
}

inline std::size_t batches(std::size_t runs) { return (runs + kMaxRuns - 1) / kMaxRuns; }

// Calls queue(batch) for each batch of kMaxRuns runs, until one fails.
template <class Run, class Queue>
Status in_batches(std::span<const Run> runs, Queue queue) {
  for (std::size_t b = 0; b < batches(runs.size()); ++b) {
    if (Status status = queue(batch(runs, b)); !status.ok()) return status;
  }
  return {};
}

}  // namespace jaxina::cuda
