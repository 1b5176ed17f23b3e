// The data types and operations of MPI that XLA uses.
#pragma once

#include <cstddef>

#include "rdma_engine/worker/tensor.h"
#include "xla_ffi/mpi/abi.h"

namespace jaxina::mpi {

// The handles of MPI_INT8_T and so on.
enum class Type : Handle {
  kInt8 = 1,
  kUint8,
  kInt16,
  kUint16,
  kInt32,
  kUint32,
  kInt64,
  kUint64,
  kFloat,
  kDouble,
  kComplex,
  kDoubleComplex,
};
// The handles of MPI_SUM and so on.
enum class Op : Handle { kSum = 1, kProduct, kMin, kMax };

struct DataType {
  ElementType element;
  std::size_t parts;  // a complex number travels as two reals
  std::size_t bytes;  // of one element with all its parts
};
// Throws Error(kUnsupportedType).
DataType data_type(Type type);

// Reduces `operands` arrays of `count` elements into `out`. The arrays lie one after the other in `in` and are combined
// from first to last. The minimum or maximum of a NaN and a number is NaN, as in XLA. Throws Error(kUnsupportedType)
// for the minimum or maximum of complex numbers.
void reduce(const void* in, std::size_t operands, std::size_t count, Type type, Op op, void* out);

}  // namespace jaxina::mpi
