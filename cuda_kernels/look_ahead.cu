// The fused kernel: each group of threads quantizes one block of this chunk, then finds the exponent of one block of
// the next chunk. The two steps share only the launch. Fusing them saves a launch, and mixing reads with writes keeps
// both directions of the memory busy.
#include "cuda_kernels/device_memory.h"
#include "cuda_kernels/forms.h"
#include "cuda_kernels/launch.h"

namespace jaxina::cuda {
namespace {

template <class Form, class Word, bool stochastic>
__global__ void __launch_bounds__(kThreads)
    look_ahead_kernel(const __grid_constant__ EncodeJob now, const __grid_constant__ ExponentJob next) {
  const Lane lane = this_lane(now.log2_lanes);
  encode_block<Form, Word, stochastic>(now, lane, DeviceMemory{});
  const std::uint32_t largest = begin_exponent<Form, kInFlight>(next, lane, DeviceMemory{});
  end_exponent<Form>(next, lane, group_maximum(largest, now.lanes()), DeviceMemory{});
}

}  // namespace

Status quantize_and_look_ahead(Stream stream, const Format& format, std::span<const QuantizeRun> now,
                               std::span<const ExponentRun> next, bool stochastic) {
  if (now.empty()) return block_exponents(stream, format, next, false);
  if (next.empty()) return quantize(stream, format, now, stochastic);
  if (!numerics::element_codec(format.type).is_float) {
    Status status = quantize(stream, format, now, stochastic);
    return status.ok() ? block_exponents(stream, format, next, false) : status;
  }
  for (std::size_t b = 0; b < std::max(batches(now.size()), batches(next.size())); ++b) {
    EncodeJob encode;
    ExponentJob exponents;
    Status status = plan(format, batch(now, b), stochastic, encode);
    if (status.ok()) status = plan(format, batch(next, b), false, exponents);
    if (!status.ok()) return status;
    exponents.log2_lanes = encode.log2_lanes;
    const std::uint64_t groups = std::max(encode.runs.blocks(), exponents.runs.blocks());
    status = with_encoding(format, stochastic, [&](auto form, auto word, auto at_random) -> Status {
      using Form = typename decltype(form)::type;
      using Word = typename decltype(word)::type;
      if constexpr (Form::kIsFloat) {
        return launch(look_ahead_kernel<Form, Word, at_random.value>, stream, groups, encode.log2_lanes, encode,
                      exponents);
      } else {
        return {};  // never reached: integers returned above
      }
    });
    if (!status.ok()) return status;
  }
  return {};
}

}  // namespace jaxina::cuda
