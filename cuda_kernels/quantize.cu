// The kernel that turns values into words.
#include "cuda_kernels/device_memory.h"
#include "cuda_kernels/forms.h"
#include "cuda_kernels/launch.h"

namespace jaxina::cuda {
namespace {

template <class Form, class Word, bool stochastic>
__global__ void __launch_bounds__(kThreads) quantize_kernel(const __grid_constant__ EncodeJob job) {
  encode_block<Form, Word, stochastic>(job, this_lane(job.log2_lanes), DeviceMemory{});
}

template <class Form>
__global__ void __launch_bounds__(kThreads) add_quantized_kernel(const __grid_constant__ EncodeJob job) {
  encode_block<Form, std::uint32_t, false, true>(job, this_lane(job.log2_lanes), DeviceMemory{});
}

}  // namespace

Status quantize(Stream stream, const Format& format, std::span<const QuantizeRun> runs, bool stochastic) {
  return in_batches(runs, [&](std::span<const QuantizeRun> batch) -> Status {
    EncodeJob job;
    if (Status planned = plan(format, batch, stochastic, job); !planned.ok()) return planned;
    return with_encoding(format, stochastic, [&](auto form, auto word, auto at_random) {
      using Form = typename decltype(form)::type;
      using Word = typename decltype(word)::type;
      return launch(quantize_kernel<Form, Word, at_random.value>, stream, job.runs.blocks(), job.log2_lanes, job);
    });
  });
}

Status add_quantized(Stream stream, const Format& format, std::span<const QuantizeRun> runs) {
  return in_batches(runs, [&](std::span<const QuantizeRun> batch) -> Status {
    EncodeJob job;
    if (Status planned = plan_adding(format, batch, job); !planned.ok()) return planned;
    return with_form(format.type, [&](auto form) {
      using Form = typename decltype(form)::type;
      return launch(add_quantized_kernel<Form>, stream, job.runs.blocks(), job.log2_lanes, job);
    });
  });
}

}  // namespace jaxina::cuda
