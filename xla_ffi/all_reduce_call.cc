// Reads the buffers and attributes of a `jaxina_all_reduce` custom call and checks them.
#include "xla_ffi/all_reduce_call.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "xla_ffi/misfit.h"

namespace jaxina {
namespace {

namespace ffi = xla::ffi;

struct Carried {
  ElementType type;
  std::size_t parts;  // a complex number travels as two reals
};

// The element types that jaxina carries. CARRIED_DTYPES in jaxina/_lowering.py lists the same types: change both
// together.
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

// Returns the row of `groups` that holds `device`, without the padding (-1) of shorter groups. Empty if no row does.
Group group_of(ffi::Span<const std::int64_t> groups, std::int64_t group_size, std::int64_t device) {
  const auto found = std::find(groups.begin(), groups.end(), device);
  if (found == groups.end()) return {};
  const auto row = groups.begin() + (found - groups.begin()) / group_size * group_size;
  Group group(row, row + group_size);
  std::erase(group, -1);
  return group;
}

}  // namespace

AllReduceCall all_reduce_call(std::int64_t device, const AllReduceAttributes& attributes,
                              const ffi::RemainingArgs& args, ffi::RemainingRets& results) {
  const auto& [groups, group_size, identity, values] = attributes;
  if (args.size() != results.size() || args.size() < 2 || group_size < 1 || groups.size() % group_size != 0) {
    throw Error(misfit("malformed jaxina_all_reduce custom call"));
  }
  const Precision precision = Precision::from({values.begin(), values.size()});
  AllReduceCall call{group_of(groups, group_size, device),
                     {.tensors = {}, .identity = static_cast<std::uint64_t>(identity), .rounding = precision.rounding}};
  if (call.group.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "device " + std::to_string(device) +
                                                 " is in none of the psum's groups: the program was compiled "
                                                 "for other devices than those it runs on");
  }
  call.collective.tensors.reserve(args.size() - 1);
  for (std::size_t i = 1; i < args.size(); ++i) {
    const auto in = args.get<ffi::AnyBuffer>(i);
    auto out = results.get<ffi::AnyBuffer>(i);
    if (!in.has_value()) throw Error(ErrorCode::kInvalidArgument, in.error().message());
    if (!out.has_value()) throw Error(ErrorCode::kInvalidArgument, out.error().message());
    const auto type = carried(in->element_type());
    if (!type || (*out)->element_type() != in->element_type() || (*out)->element_count() != in->element_count()) {
      throw Error(ErrorCode::kUnsupportedType,
                  "operand " + std::to_string(i - 1) + " of a psum has a type that jaxina does not carry");
    }
    call.collective.tensors.push_back(
        precision.tensor(type->type, in->element_count() * type->parts, in->untyped_data(), (*out)->untyped_data()));
  }
  return call;
}

std::size_t size_of(const Tensor& tensor) { return tensor.count * numerics::element_codec(tensor.type).size; }

}  // namespace jaxina
