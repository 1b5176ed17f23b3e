// Hands the operands of one psum to the engine. The handler speaks no protocol and does not wait: it returns a future,
// which the engine's completion thread fulfils. XLA frees the call frame when the handler returns, so nothing of it is
// used later; only the buffers are, and XLA keeps those until the future is fulfilled.
#include "xla_ffi/all_reduce_cpu.h"

#include <cstring>
#include <optional>
#include <utility>

#include "rdma_engine/numerics/stochastic_rounding.h"
#include "xla_ffi/all_reduce_call.h"
#include "xla_ffi/error_codes.h"
#include "xla_ffi/sum_counts.h"
#include "xla_ffi/sum_names.h"
#include "xla_ffi/team.h"

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

// `name`: the sum's identity in the program.
ffi::Future submitted(const Group& group, std::int64_t device, std::uint64_t name, Collective collective) {
  ffi::Promise promise;
  ffi::Future future(promise);
  Engine::instance().submit(group, device, std::move(collective), [promise, name](const Status& status) mutable {
    if (status.ok()) {
      promise.SetAvailable();
    } else {
      promise.SetError(to_xla(with_name(status, name)));
    }
  });
  return future;
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
  const std::uint64_t name = call.collective.identity;
  count_sum(name, call.collective);
  return submitted(call.group, device, name, std::move(call.collective));
}

ffi::Future team_all_reduce(ffi::RemainingArgs args, ffi::RemainingRets results, std::int64_t identity,
                            ffi::Span<const std::int64_t> precision) {
  const std::optional<Team> members = team();
  if (!members) {
    return finished({ErrorCode::kNotInitialized,
                     "jaxina.elastic.all_reduce ran outside of a step: call it only in the function that is given to "
                     "jaxina.elastic.steps"});
  }
  AllReduceCall call;
  try {
    const Group& group = members->group;
    const ffi::Span<const std::int64_t> numbers(group.data(), group.size());
    const auto size = static_cast<std::int64_t>(group.size());
    call = all_reduce_call(members->member, {numbers, size, identity, precision}, args, results);
  } catch (const Error& error) {
    return finished(error.status());
  }
  if (call.group.size() == 1) {
    copy(call.collective);
    return finished({});
  }
  const std::uint64_t name = call.collective.identity;
  count_sum(name, call.collective);
  call.collective.identity = numerics::random64(name, members->step);
  return submitted(call.group, members->member, name, std::move(call.collective));
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

XLA_FFI_Error* team_all_reduce_cpu(XLA_FFI_CallFrame* call_frame) {
  XLA_FFI_DEFINE_HANDLER(handler, team_all_reduce,
                         ffi::Ffi::Bind()
                             .RemainingArgs()
                             .RemainingRets()
                             .Attr<std::int64_t>("identity")
                             .Attr<ffi::Span<const std::int64_t>>("precision"));
  return (*handler)(call_frame);
}

}  // namespace jaxina
