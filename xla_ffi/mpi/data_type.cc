// Reduces arrays of every data type that XLA gives to MPI.
#include "xla_ffi/mpi/data_type.h"

#include <algorithm>
#include <complex>
#include <cstdint>
#include <type_traits>

#include "rdma_engine/errors.h"

namespace jaxina::mpi {
namespace {

template <typename T>
constexpr bool is_complex = !std::is_arithmetic_v<T>;

template <typename T>
T combine(Op op, T a, T b) {
  if (op == Op::kSum) return static_cast<T>(a + b);
  if (op == Op::kProduct) return static_cast<T>(a * b);
  if constexpr (is_complex<T>) {
    throw Error(ErrorCode::kUnsupportedType, "complex numbers have no minimum or maximum");
  } else {
    if (a != a || b != b) return a != a ? a : b;
    return op == Op::kMin ? std::min(a, b) : std::max(a, b);
  }
}

template <typename T>
void reduce_as(const void* in, std::size_t operands, std::size_t count, Op op, void* out) {
  const T* from = static_cast<const T*>(in);
  T* to = static_cast<T*>(out);
  std::copy(from, from + count, to);
  for (std::size_t operand = 1; operand < operands; ++operand) {
    for (std::size_t i = 0; i < count; ++i) to[i] = combine(op, to[i], from[operand * count + i]);
  }
}

[[noreturn]] void unsupported() {
  throw Error(ErrorCode::kUnsupportedType, "XLA asked MPI for a data type that jaxina does not carry");
}

}  // namespace

DataType data_type(Type type) {
  switch (type) {
    case Type::kInt8:
    case Type::kUint8: return {ElementType::kInt8, 1, 1};
    case Type::kInt16:
    case Type::kUint16: return {ElementType::kInt16, 1, 2};
    case Type::kInt32:
    case Type::kUint32: return {ElementType::kInt32, 1, 4};
    case Type::kInt64:
    case Type::kUint64: return {ElementType::kInt64, 1, 8};
    case Type::kFloat: return {ElementType::kFloat32, 1, 4};
    case Type::kDouble: return {ElementType::kFloat64, 1, 8};
    case Type::kComplex: return {ElementType::kFloat32, 2, 8};
    case Type::kDoubleComplex: return {ElementType::kFloat64, 2, 16};
  }
  unsupported();
}

void reduce(const void* in, std::size_t operands, std::size_t count, Type type, Op op, void* out) {
  switch (type) {
    case Type::kInt8: return reduce_as<std::int8_t>(in, operands, count, op, out);
    case Type::kUint8: return reduce_as<std::uint8_t>(in, operands, count, op, out);
    case Type::kInt16: return reduce_as<std::int16_t>(in, operands, count, op, out);
    case Type::kUint16: return reduce_as<std::uint16_t>(in, operands, count, op, out);
    case Type::kInt32: return reduce_as<std::int32_t>(in, operands, count, op, out);
    case Type::kUint32: return reduce_as<std::uint32_t>(in, operands, count, op, out);
    case Type::kInt64: return reduce_as<std::int64_t>(in, operands, count, op, out);
    case Type::kUint64: return reduce_as<std::uint64_t>(in, operands, count, op, out);
    case Type::kFloat: return reduce_as<float>(in, operands, count, op, out);
    case Type::kDouble: return reduce_as<double>(in, operands, count, op, out);
    case Type::kComplex: return reduce_as<std::complex<float>>(in, operands, count, op, out);
    case Type::kDoubleComplex: return reduce_as<std::complex<double>>(in, operands, count, op, out);
  }
  unsupported();
}

}  // namespace jaxina::mpi
