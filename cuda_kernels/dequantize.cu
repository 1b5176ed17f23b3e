// The kernels that turn the summed words back into values.
#include "cuda_kernels/device_memory.h"
#include "cuda_kernels/forms.h"
#include "cuda_kernels/launch.h"

namespace jaxina::cuda {
namespace {

template <class Form, class Word, bool divides>
__global__ void __launch_bounds__(kThreads) dequantize_kernel(const __grid_constant__ DecodeJob job) {
  decode_block<Form, Word, divides>(job, this_lane(job.log2_lanes), DeviceMemory{});
}

}  // namespace

Status dequantize(Stream stream, const Format& format, std::span<const DequantizeRun> runs, bool keep_non_finite) {
  return in_batches(runs, [&](std::span<const DequantizeRun> batch) -> Status {
    DecodeJob job;
    if (Status planned = plan(format, batch, keep_non_finite, job); !planned.ok()) return planned;
    return with_form_and_word(format, [&](auto form, auto word) {
      using Form = typename decltype(form)::type;
      using Word = typename decltype(word)::type;
      return launch(dequantize_kernel<Form, Word, false>, stream, job.runs.blocks(), job.log2_lanes, job);
    });
  });
}

Status divide_and_dequantize(Stream stream, const Format& format, std::span<const DequantizeRun> runs,
                             Division division, bool keep_non_finite) {
  return in_batches(runs, [&](std::span<const DequantizeRun> batch) -> Status {
    DecodeJob job;
    if (Status planned = plan(format, batch, division, keep_non_finite, job); !planned.ok()) return planned;
    return with_narrow_form(format.type, [&](auto form) {
      using Form = typename decltype(form)::type;
      return launch(dequantize_kernel<Form, std::uint32_t, true>, stream, job.runs.blocks(), job.log2_lanes, job);
    });
  });
}

}  // namespace jaxina::cuda
