// The two FFI handlers of a psum on a GPU: start and done. Neither stops the stream, so kernels that are already queued
// run while the sum is under way.
//
// start() only records an event. When the GPU reaches it, the operands are computed, and a thread of CudaDevice hands
// them to the engine. done() blocks the host until the sum is there, so the host does not queue kernels that need it.
//
// A wait inside the stream, in place of done()'s, would let the host run further ahead. But nothing inside a stream can
// fail a program with a reason, and a program must not go on with a sum that was lost.
#include <cuda_runtime_api.h>

#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "xla_ffi/all_reduce_call.h"
#include "xla_ffi/error_codes.h"
#include "xla_ffi/gpu/cuda_device.h"
#include "xla_ffi/gpu/engine_table.h"
#include "xla_ffi/gpu/gpu.h"
#include "xla_ffi/gpu/pending_collectives.h"

namespace jaxina {
namespace {

namespace ffi = xla::ffi;

// pending() and ids() are never destroyed, like the engine: its threads may use them until the process ends.
PendingCollectives& pending() {
  static auto* collectives = new PendingCollectives;
  return *collectives;
}

struct Ids {
  std::mutex mutex;
  std::map<int, std::int64_t> of_ordinal;
};
Ids& ids() {
  static auto* known = new Ids;
  return *known;
}

std::int64_t id_of(int ordinal) {
  const std::lock_guard guard(ids().mutex);
  const auto found = ids().of_ordinal.find(ordinal);
  if (found == ids().of_ordinal.end()) {
    throw Error(ErrorCode::kInvalidArgument,
                "GPU " + std::to_string(ordinal) +
                    " of this process is not known to jaxina; its Python and native parts do "
                    "not fit together: reinstall jaxina");
  }
  return found->second;
}

void copy(const void* from, void* to, std::size_t bytes, cudaStream_t stream) {
  if (from == to || bytes == 0) return;
  const Status status =
      cuda_status(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream), "copying a psum");
  if (!status.ok()) throw Error(status);
}

// The state of one run of a program. XLA keeps one for each start call in a running program, and destroys it before it
// frees the run's buffers.
struct Running : PendingCollectives::Run {
  using Run::Run;
  static ffi::TypeId id;  // assigned by XLA at registration
};
ffi::TypeId Running::id = {};
const ffi::TypeInfo kRunningInfo = ffi::MakeTypeInfo<Running>();

ffi::ErrorOr<std::unique_ptr<Running>> initialize(ffi::RunId run, std::int32_t ordinal) try {
  return std::make_unique<Running>(pending(), run.run_id, id_of(ordinal));
} catch (const Error& error) {
  return ffi::Unexpected(to_xla(error.status()));
}

ffi::Error start(Running*, cudaStream_t stream, ffi::RunId run, std::int32_t ordinal, ffi::RemainingArgs args,
                 ffi::RemainingRets results, ffi::Span<const std::int64_t> groups, std::int64_t group_size,
                 std::int64_t identity, ffi::Span<const std::int64_t> precision) try {
  const std::int64_t device = id_of(ordinal);
  AllReduceCall call = all_reduce_call(device, {groups, group_size, identity, precision}, args, results);
  PendingCollectives::Buffers buffers;
  for (const Tensor& tensor : call.collective.tensors) buffers.push_back(tensor.out);
  CudaDevice* gpu = call.group.size() == 1 ? nullptr : &CudaDevice::of(ordinal);
  if (gpu == nullptr) {
    for (const Tensor& tensor : call.collective.tensors) copy(tensor.in, tensor.out, size_of(tensor), stream);
  }
  const PendingCollectives::Ending ending = pending().add({run.run_id, device, identity}, std::move(buffers));
  if (gpu == nullptr) {
    ending->set_value({});
    return ffi::Error::Success();
  }
  call.collective.device = gpu;
  gpu->after(stream, [device, ending, call = std::move(call)](Status arrived) mutable {
    if (!arrived.ok()) return ending->set_value(std::move(arrived));
    engine().submit(call.group, device, std::move(call.collective),
                    [ending](Status status) { ending->set_value(std::move(status)); });
  });
  return ffi::Error::Success();
} catch (const Error& error) {
  return to_xla(error.status());
}

// args: the results of start(), then its operands. The operands are arguments only so that XLA keeps their buffers
// until now.
ffi::Error done(cudaStream_t stream, ffi::RunId run, std::int32_t ordinal, ffi::RemainingArgs args,
                ffi::RemainingRets results, std::int64_t identity) try {
  PendingCollectives::Buffers buffers;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const auto sum = args.get<ffi::AnyBuffer>(i);
    if (!sum.has_value()) throw Error(ErrorCode::kInvalidArgument, sum.error().message());
    buffers.push_back(sum->untyped_data());
  }
  const Status status = pending().finish({run.run_id, id_of(ordinal), identity}, buffers);
  if (!status.ok()) return to_xla(status);
  for (std::size_t i = 0; i < results.size(); ++i) {
    auto out = results.get<ffi::AnyBuffer>(i);
    if (!out.has_value()) throw Error(ErrorCode::kInvalidArgument, out.error().message());
    copy(buffers[i], (*out)->untyped_data(), (*out)->size_bytes(), stream);
  }
  return ffi::Error::Success();
} catch (const Error& error) {
  return to_xla(error.status());
}

XLA_FFI_Error* initialize_handler(XLA_FFI_CallFrame* call_frame) {
  XLA_FFI_DEFINE_HANDLER(
      handler, initialize,
      ffi::Ffi::Bind<ffi::ExecutionStage::kInitialize>().Ctx<ffi::RunId>().Ctx<ffi::DeviceOrdinal>());
  return (*handler)(call_frame);
}

XLA_FFI_Error* start_handler(XLA_FFI_CallFrame* call_frame) {
  XLA_FFI_DEFINE_HANDLER(handler, start,
                         ffi::Ffi::Bind()
                             .Ctx<ffi::Initialized<Running>>()  // XLA fails the call if there is no such state
                             .Ctx<ffi::PlatformStream<cudaStream_t>>()
                             .Ctx<ffi::RunId>()
                             .Ctx<ffi::DeviceOrdinal>()
                             .RemainingArgs()
                             .RemainingRets()
                             .Attr<ffi::Span<const std::int64_t>>("groups")
                             .Attr<std::int64_t>("group_size")
                             .Attr<std::int64_t>("identity")
                             .Attr<ffi::Span<const std::int64_t>>("precision"));
  return (*handler)(call_frame);
}

XLA_FFI_Error* done_handler(XLA_FFI_CallFrame* call_frame) {
  XLA_FFI_DEFINE_HANDLER(handler, done,
                         ffi::Ffi::Bind()
                             .Ctx<ffi::PlatformStream<cudaStream_t>>()
                             .Ctx<ffi::RunId>()
                             .Ctx<ffi::DeviceOrdinal>()
                             .RemainingArgs()
                             .RemainingRets()
                             .Attr<std::int64_t>("identity"));
  return (*handler)(call_frame);
}

}  // namespace

void set_gpu_ids(std::map<int, std::int64_t> id_of_ordinal) {
  const std::lock_guard guard(ids().mutex);
  ids().of_ordinal = std::move(id_of_ordinal);
}

GpuHandlers gpu_handlers() { return {initialize_handler, start_handler, done_handler, &Running::id, &kRunningInfo}; }

}  // namespace jaxina
