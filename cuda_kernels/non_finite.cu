// The kernels that find NaN and Inf, and write them back.
#include "cuda_kernels/device_memory.h"
#include "cuda_kernels/forms.h"
#include "cuda_kernels/launch.h"

namespace jaxina::cuda {
namespace {

template <class Form>
__global__ void __launch_bounds__(kThreads) flag_kernel(const __grid_constant__ EncodeJob job) {
  encode_block<FlagForm<Form>, std::uint32_t, false>(job, this_lane(job.log2_lanes), DeviceMemory{});
}

template <class Form>
__global__ void __launch_bounds__(kThreads) apply_flag_kernel(const __grid_constant__ DecodeJob job) {
  decode_block<FlagForm<Form>, std::uint32_t, false>(job, this_lane(job.log2_lanes), DeviceMemory{});
}

template <class Form>
__global__ void __launch_bounds__(kThreads) packed_flag_kernel(const __grid_constant__ EncodeJob job) {
  encode_packed_flags<Form>(job, this_lane(job.log2_lanes), DeviceMemory{});
}

template <class Form>
__global__ void __launch_bounds__(kThreads) apply_packed_flag_kernel(const __grid_constant__ DecodeJob job) {
  decode_packed_flags<Form>(job, this_lane(job.log2_lanes), DeviceMemory{});
}

// Integers are always finite, so all their flags are 0.
Status clear_words(Stream stream, const Format& format, const EncodeJob& job) {
  const std::size_t words = numerics::element_codec(format.type).words;
  for (std::uint32_t r = 0; r < job.runs.count; ++r) {
    const std::uint64_t blocks = job.runs.first_block[r + 1] - job.runs.first_block[r];
    if (blocks == 0) continue;
    const std::uint64_t before = blocks - 1;
    const std::uint64_t last = job.runs.run[r].count - before * job.shape.elements;
    const std::size_t bytes = sizeof(std::uint32_t) * (before * job.shape.words + last * words);
    const cudaError_t error = cudaMemsetAsync(job.runs.run[r].words, 0, bytes, stream);
    if (error != cudaSuccess) return to_status(error, "clearing flags");
  }
  return {};
}

}  // namespace

Status non_finite_flags(Stream stream, const Format& format, std::span<const FlagRun> runs) {
  return in_batches(runs, [&](std::span<const FlagRun> batch) -> Status {
    EncodeJob job;
    if (Status planned = plan(format, batch, job); !planned.ok()) return planned;
    if (!numerics::element_codec(format.type).is_float) return clear_words(stream, format, job);
    if (format.word != numerics::WireWord::kInt32) {
      return with_narrow_form(format.type, [&](auto form) {
        using Form = typename decltype(form)::type;
        return launch(packed_flag_kernel<Form>, stream, job.runs.blocks(), job.log2_lanes, job);
      });
    }
    return with_float_form(format.type, [&](auto form) {
      using Form = typename decltype(form)::type;
      return launch(flag_kernel<Form>, stream, job.runs.blocks(), job.log2_lanes, job);
    });
  });
}

Status apply_non_finite_flags(Stream stream, const Format& format, std::span<const ApplyFlagRun> runs, bool clear) {
  if (!numerics::element_codec(format.type).is_float) return {};
  return in_batches(runs, [&](std::span<const ApplyFlagRun> batch) -> Status {
    DecodeJob job;
    if (Status planned = plan(format, batch, clear, job); !planned.ok()) return planned;
    if (format.word != numerics::WireWord::kInt32) {
      return with_narrow_form(format.type, [&](auto form) {
        using Form = typename decltype(form)::type;
        return launch(apply_packed_flag_kernel<Form>, stream, job.runs.blocks(), job.log2_lanes, job);
      });
    }
    return with_float_form(format.type, [&](auto form) {
      using Form = typename decltype(form)::type;
      return launch(apply_flag_kernel<Form>, stream, job.runs.blocks(), job.log2_lanes, job);
    });
  });
}

}  // namespace jaxina::cuda
