// What MPItrampoline looks up in the library: the functions and constants that XLA's MPI collectives use. All others come
// from abi_names.py and fail when called.
#include <cstdio>
#include <functional>
#include <string>
#include <variant>

#include "xla_ffi/mpi/abi.h"
#include "xla_ffi/mpi/collectives.h"

namespace {

using jaxina::Error;
using jaxina::ErrorCode;
using jaxina::mpi::Communicator;
using jaxina::mpi::Op;
using jaxina::mpi::Type;

constexpr int kSuccess = 0;
constexpr int kFailed = 1;
constexpr Handle kWorld = 1;
thread_local std::string last_error;

// Runs the body of an MPI function. Its error becomes a code, for which XLA then asks the text.
int returning(const std::function<void()>& body) {
  try {
    body();
    return kSuccess;
  } catch (const std::exception& error) {
    last_error = error.what();
    return kFailed;
  }
}

// XLA does not look whether making a communicator failed: its users are told.
using Made = std::variant<Communicator, Error>;

const Communicator& of(Handle handle) {
  const Made& made = *reinterpret_cast<const Made*>(handle);
  if (const Error* error = std::get_if<Error>(&made)) throw *error;
  return std::get<Communicator>(made);
}

std::size_t size(int count) { return static_cast<std::size_t>(count); }

}  // namespace

int not_provided(const char* name) {
  return returning([&] {
    throw Error(ErrorCode::kUnsupportedType,
                std::string(name) + " is not carried: `jaxina run --catch-all` carries all-reduce, all-gather and "
                "reduce-scatter, but no collective permute and no all-to-all");
  });
}

extern "C" {

// Checked when the library is loaded: the interface's major number, and a minor one that is not smaller than wanted.
JAXINA_MPI_EXPORT extern const int mpiwrapper_version_major = 2;
JAXINA_MPI_EXPORT extern const int mpiwrapper_version_minor = 0;
JAXINA_MPI_EXPORT extern const int mpiwrapper_version_patch = 0;
JAXINA_MPI_EXPORT extern const int mpiabi_version_major = 2;
JAXINA_MPI_EXPORT extern const int mpiabi_version_minor = 99;
JAXINA_MPI_EXPORT extern const int mpiabi_version_patch = 0;
JAXINA_MPI_EXPORT void mpiwrapper_export_fortran_constants_() {}

JAXINA_MPI_EXPORT extern const Handle MPIABI_COMM_WORLD = kWorld;
JAXINA_MPI_EXPORT extern const Handle MPIABI_UNDEFINED = 0x7fffffff;
JAXINA_MPI_EXPORT extern const Type MPIABI_INT8_T = Type::kInt8;
JAXINA_MPI_EXPORT extern const Type MPIABI_UINT8_T = Type::kUint8;
JAXINA_MPI_EXPORT extern const Type MPIABI_INT16_T = Type::kInt16;
JAXINA_MPI_EXPORT extern const Type MPIABI_UINT16_T = Type::kUint16;
JAXINA_MPI_EXPORT extern const Type MPIABI_INT32_T = Type::kInt32;
JAXINA_MPI_EXPORT extern const Type MPIABI_UINT32_T = Type::kUint32;
JAXINA_MPI_EXPORT extern const Type MPIABI_INT64_T = Type::kInt64;
JAXINA_MPI_EXPORT extern const Type MPIABI_UINT64_T = Type::kUint64;
JAXINA_MPI_EXPORT extern const Type MPIABI_FLOAT = Type::kFloat;
JAXINA_MPI_EXPORT extern const Type MPIABI_DOUBLE = Type::kDouble;
JAXINA_MPI_EXPORT extern const Type MPIABI_C_COMPLEX = Type::kComplex;
JAXINA_MPI_EXPORT extern const Type MPIABI_C_DOUBLE_COMPLEX = Type::kDoubleComplex;
JAXINA_MPI_EXPORT extern const Op MPIABI_SUM = Op::kSum;
JAXINA_MPI_EXPORT extern const Op MPIABI_PROD = Op::kProduct;
JAXINA_MPI_EXPORT extern const Op MPIABI_MIN = Op::kMin;
JAXINA_MPI_EXPORT extern const Op MPIABI_MAX = Op::kMax;

JAXINA_MPI_EXPORT int MPIABI_Init_thread(int*, char***, int required, int* provided) {
  *provided = required;
  return kSuccess;
}

JAXINA_MPI_EXPORT int MPIABI_Finalize() { return kSuccess; }

// XLA makes communicators in one thread only, since an MPI library may want that. Here any thread may.
JAXINA_MPI_EXPORT int MPIABI_Is_thread_main(int* flag) {
  *flag = 1;
  return kSuccess;
}

JAXINA_MPI_EXPORT int MPIABI_Error_string(int, char* text, int* length) {
  constexpr int kRoom = 1024;  // the interface's MPI_MAX_ERROR_STRING
  const int written = std::snprintf(text, kRoom, "%s", last_error.c_str());
  *length = written < kRoom ? written : kRoom - 1;
  return kSuccess;
}

JAXINA_MPI_EXPORT int MPIABI_Comm_rank(Handle communicator, int* rank) {
  *rank = 0;
  return returning([&] { *rank = communicator == kWorld ? jaxina::mpi::world().rank : of(communicator).rank(); });
}

JAXINA_MPI_EXPORT int MPIABI_Comm_size(Handle communicator, int* result) {
  *result = 1;
  return returning([&] { *result = communicator == kWorld ? jaxina::mpi::world().size : of(communicator).size(); });
}

JAXINA_MPI_EXPORT int MPIABI_Comm_split(Handle, int color, int key, Handle* result) {
  Made* made = nullptr;
  const int code = returning([&] {
    try {
      made = new Made(Communicator::split(color, key));
    } catch (const Error& error) {
      made = new Made(error);
      throw;
    }
  });
  *result = reinterpret_cast<Handle>(made);
  return code;
}

JAXINA_MPI_EXPORT int MPIABI_Comm_free(Handle* communicator) {
  delete reinterpret_cast<Made*>(*communicator);
  *communicator = 0;
  return kSuccess;
}

JAXINA_MPI_EXPORT int MPIABI_Allreduce(const void* in, void* out, int count, Type type, Op op, Handle communicator) {
  return returning([&] { jaxina::mpi::all_reduce(of(communicator), in, out, size(count), type, op); });
}

JAXINA_MPI_EXPORT int MPIABI_Allgather(const void* in, int count, Type type, void* out, int, Type, Handle communicator) {
  return returning([&] {
    jaxina::mpi::all_gather(of(communicator), in, out, size(count) * jaxina::mpi::data_type(type).bytes);
  });
}

// XLA gives every process the same count.
JAXINA_MPI_EXPORT int MPIABI_Reduce_scatter(const void* in, void* out, const int* counts, Type type, Op op,
                                            Handle communicator) {
  return returning(
      [&] { jaxina::mpi::reduce_scatter(of(communicator), in, out, size(counts[0]), type, op); });
}
}
