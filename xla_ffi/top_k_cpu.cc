// Finds the values of largest magnitude in each row of an array.
#include "xla_ffi/top_k_cpu.h"

#include <algorithm>
#include <cstdint>
#include <new>
#include <span>

#include "rdma_engine/numerics/top_k.h"
#include "xla_ffi/error_codes.h"
#include "xla_ffi/misfit.h"

namespace jaxina {
namespace {

namespace ffi = xla::ffi;

// values: [..., n]. chosen: [..., k].
ffi::Error top_k(ffi::Buffer<ffi::F32> values, ffi::ResultBuffer<ffi::S32> chosen) {
  const auto from = values.dimensions(), to = chosen->dimensions();
  if (from.size() == 0 || to.size() != from.size() || !std::equal(from.begin(), from.end() - 1, to.begin())) {
    return to_xla(misfit("malformed jaxina_top_k custom call"));
  }
  const std::size_t n = from.back(), k = to.back();
  if (k == 0) return ffi::Error::Success();
  const float* row = values.typed_data();
  std::int32_t* indices = chosen->typed_data();
  try {
    for (std::size_t left = chosen->element_count() / k; left != 0; --left, row += n, indices += k) {
      numerics::top_k({row, n}, {indices, k});
    }
  } catch (const Error& error) {
    return to_xla(error.status());
  } catch (const std::bad_alloc&) {
    return {ffi::ErrorCode::kResourceExhausted, "no memory is left to select the largest elements of a gradient"};
  }
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_Error* top_k_cpu(XLA_FFI_CallFrame* call_frame) {
  XLA_FFI_DEFINE_HANDLER(handler, top_k, ffi::Ffi::Bind().Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::S32>>());
  return (*handler)(call_frame);
}

}  // namespace jaxina
