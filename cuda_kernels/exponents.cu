// The kernel that finds each block's exponent.
#include "cuda_kernels/device_memory.h"
#include "cuda_kernels/forms.h"
#include "cuda_kernels/launch.h"

namespace jaxina::cuda {
namespace {

template <class Form>
__global__ void __launch_bounds__(kThreads) exponent_kernel(const __grid_constant__ ExponentJob job) {
  const Lane lane = this_lane(job.log2_lanes);
  constexpr std::uint32_t kLoads = exponents_in_flight(sizeof(typename Form::Element));
  const std::uint32_t largest = begin_exponent<Form, kLoads>(job, lane, DeviceMemory{});
  end_exponent<Form>(job, lane, group_maximum(largest, job.lanes()), DeviceMemory{});
}

// Integers have no exponents: the bytes of their blocks are 0.
Status clear_exponents(Stream stream, const ExponentJob& job) {
  for (std::uint32_t r = 0; r < job.runs.count; ++r) {
    const std::size_t blocks = job.runs.first_block[r + 1] - job.runs.first_block[r];
    if (blocks == 0) continue;
    const cudaError_t error = cudaMemsetAsync(job.runs.run[r].exponents, 0, blocks, stream);
    if (error != cudaSuccess) return to_status(error, "clearing exponents");
  }
  return {};
}

}  // namespace

Status block_exponents(Stream stream, const Format& format, std::span<const ExponentRun> runs, bool finite_only) {
  return in_batches(runs, [&](std::span<const ExponentRun> batch) -> Status {
    ExponentJob job;
    if (Status planned = plan(format, batch, finite_only, job); !planned.ok()) return planned;
    if (!numerics::element_codec(format.type).is_float) return clear_exponents(stream, job);
    return with_float_form(format.type, [&](auto form) {
      using Form = typename decltype(form)::type;
      return launch(exponent_kernel<Form>, stream, job.runs.blocks(), job.log2_lanes, job);
    });
  });
}

}  // namespace jaxina::cuda
