// Hands the operands of one psum to the engine. The handler speaks no protocol and does not wait: it returns a future,
// which the engine's completion thread fulfils. XLA frees the call frame when the handler returns, so nothing of it is
// used later; only the buffers are, and XLA keeps those until the future is fulfilled.
#include "xla_ffi/all_reduce_cpu.h"

#include <cstring>
#include <utility>

#include "xla_ffi/all_reduce_call.h"
#include "xla_ffi/error_codes.h"
#include "xla_ffi/sum_counts.h"

namespace jaxina {
namespace {

namespace ffi = xla::ffi;

ffi::Future finished(const Status& status) {
  ffi::Promise promise;
  ffi::Future future(promise);
  if (status.ok()) {
    promise.SetAvailable();
  } else {
    promise.SetError(to_xla(status));
  }
  return future;
}

void copy(const Collective& collective) {
  for (const Tensor& tensor : collective.tensors) {
    if (tensor.in != tensor.out && tensor.count != 0) std::memcpy(tensor.out, tensor.in, size_of(tensor));
  }
}

ffi::Future all_reduce(std::int32_t device, ffi::RemainingArgs args, ffi::RemainingRets results,
                       ffi::Span<const std::int64_t> groups, std::int64_t group_size, std::int64_t identity,
                       ffi::Span<const std::int64_t> precision) {
  AllReduceCall call;
  try {
    call = all_reduce_call(device, {groups, group_size, identity, precision}, args, results);
  } catch (const Error& error) {
    return finished(error.status());
  }
  if (call.group.size() == 1) {
    copy(call.collective);
    return finished({});
  }
  count_sum(call.collective.identity, call.collective);
  ffi::Promise promise;
  ffi::Future future(promise);
  Engine::instance().submit(call.group, device, std::move(call.collective), [promise](const Status& status) mutable {
    if (status.ok()) {
      promise.SetAvailable();
    } else {
      promise.SetError(to_xla(status));
    }
  });
  return future;
}

}  // namespace

XLA_FFI_Error* all_reduce_cpu(XLA_FFI_CallFrame* call_frame) {
  XLA_FFI_DEFINE_HANDLER(handler, all_reduce,
                         ffi::Ffi::Bind()
                             .Ctx<ffi::DeviceOrdinal>()
                             .RemainingArgs()
                             .RemainingRets()
                             .Attr<ffi::Span<const std::int64_t>>("groups")
                             .Attr<std::int64_t>("group_size")
                             .Attr<std::int64_t>("identity")
                             .Attr<ffi::Span<const std::int64_t>>("precision"));
  return (*handler)(call_frame);
}

}  // namespace jaxina
