// Hands the operands of one psum to the engine. No protocol and no waiting here: the result is a future that the
// engine's completion thread fulfils, and nothing of the invocation is used after the handler returns.
#include "xla_ffi/all_reduce_cpu.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "rdma_engine/engine/engine.h"
#include "xla/ffi/api/ffi.h"
#include "xla_ffi/error_codes.h"

namespace jaxina {
namespace {

namespace ffi = xla::ffi;

struct Carried {
  ElementType type;
  std::size_t parts;  // a complex number travels as two reals
};

// The types that are carried; CARRIED_DTYPES in jaxina/_lowering.py names the same ones, keep them together.
std::optional<Carried> carried(ffi::DataType type) {
  switch (type) {
    case ffi::DataType::F16: return Carried{ElementType::kFloat16, 1};
    case ffi::DataType::BF16: return Carried{ElementType::kBfloat16, 1};
    case ffi::DataType::F32: return Carried{ElementType::kFloat32, 1};
    case ffi::DataType::F64: return Carried{ElementType::kFloat64, 1};
    case ffi::DataType::C64: return Carried{ElementType::kFloat32, 2};
    case ffi::DataType::C128: return Carried{ElementType::kFloat64, 2};
    case ffi::DataType::S8:
    case ffi::DataType::U8: return Carried{ElementType::kInt8, 1};
    case ffi::DataType::S16:
    case ffi::DataType::U16: return Carried{ElementType::kInt16, 1};
    case ffi::DataType::S32:
    case ffi::DataType::U32: return Carried{ElementType::kInt32, 1};
    case ffi::DataType::S64:
    case ffi::DataType::U64: return Carried{ElementType::kInt64, 1};
    default: return std::nullopt;
  }
}

ffi::Future failed(ErrorCode code, std::string message) {
  ffi::Promise promise;
  ffi::Future future(promise);
  promise.SetError(to_xla(Status(code, std::move(message))));
  return future;
}

ffi::Future succeeded() {
  ffi::Promise promise;
  ffi::Future future(promise);
  promise.SetAvailable();
  return future;
}

// The row of `groups` that holds `device`, without the padding (-1) of shorter groups; empty if none does.
Group group_of(ffi::Span<const std::int64_t> groups, std::int64_t group_size, std::int64_t device) {
  const auto found = std::find(groups.begin(), groups.end(), device);
  if (found == groups.end()) return {};
  const auto row = groups.begin() + (found - groups.begin()) / group_size * group_size;
  Group group(row, row + group_size);
  std::erase(group, -1);
  return group;
}

// groups: [number of groups x group_size] global device ids. identity: names the call, see jaxina/_module.py. Operand
// and result 0 are the ordering token.
ffi::Future all_reduce(std::int32_t device, ffi::RemainingArgs args, ffi::RemainingRets results,
                       ffi::Span<const std::int64_t> groups, std::int64_t group_size, std::int64_t identity) {
  if (args.size() != results.size() || args.size() < 2 || group_size < 1 || groups.size() % group_size != 0) {
    return failed(ErrorCode::kInvalidArgument, "malformed jaxina_all_reduce custom call; jaxina's Python and native "
                                               "parts do not fit together: reinstall jaxina");
  }
  const Group group = group_of(groups, group_size, device);
  if (group.empty()) {
    return failed(ErrorCode::kInvalidArgument,
                  "device " + std::to_string(device) + " is in none of the psum's groups: the program was compiled "
                  "for other devices than those it runs on");
  }

  Collective collective;
  collective.identity = static_cast<std::uint64_t>(identity);
  collective.tensors.reserve(args.size() - 1);
  for (std::size_t i = 1; i < args.size(); ++i) {
    const auto in = args.get<ffi::AnyBuffer>(i);
    auto out = results.get<ffi::AnyBuffer>(i);
    if (!in.has_value()) return failed(ErrorCode::kInvalidArgument, in.error().message());
    if (!out.has_value()) return failed(ErrorCode::kInvalidArgument, out.error().message());
    const auto type = carried(in->element_type());
    if (!type || (*out)->element_type() != in->element_type() || (*out)->element_count() != in->element_count()) {
      return failed(ErrorCode::kUnsupportedType, "operand " + std::to_string(i - 1) +
                                                     " of a psum has a type that jaxina does not carry");
    }
    const Tensor tensor{type->type, in->element_count() * type->parts, in->untyped_data(), (*out)->untyped_data()};
    if (group.size() > 1) {
      collective.tensors.push_back(tensor);
    } else if (tensor.in != tensor.out && tensor.count != 0) {
      std::memcpy(tensor.out, tensor.in, in->size_bytes());
    }
  }
  if (group.size() == 1) return succeeded();

  ffi::Promise promise;
  ffi::Future future(promise);
  Engine::instance().submit(group, device, std::move(collective), [promise](Status status) mutable {
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
                             .Attr<std::int64_t>("identity"));
  return (*handler)(call_frame);
}

}  // namespace jaxina
