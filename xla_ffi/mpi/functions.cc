// The functions and constants of MPI that XLA's collectives use, under the names that MPItrampoline looks up. All other
// names come from abi_names.py; those functions fail when called.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "xla_ffi/mpi/abi.h"
#include "xla_ffi/mpi/collectives.h"
#include "xla_ffi/mpi/running_program.h"

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

// Runs the body of an MPI function and turns an error into MPI's code. XLA then asks for the text with
// MPI_Error_string.
int returning(const std::function<void()>& body) {
  try {
    body();
    return kSuccess;
  } catch (const Error& error) {
    jaxina::mpi::running_program().fail(error.status());
    last_error = error.what();
    return kFailed;
  } catch (const std::exception& error) {
    last_error = error.what();
    return kFailed;
  }
}

// A communicator, or the error of its making. XLA does not check whether MPI_Comm_split failed, so the first use of the
// communicator reports the error.
using Made = std::variant<Communicator, Error>;

const Communicator& of(Handle handle) {
  const Made& made = *reinterpret_cast<const Made*>(handle);
  if (const Error* error = std::get_if<Error>(&made)) throw *error;
  return std::get<Communicator>(made);
}

// Returns a number of elements or bytes. XLA narrows its own numbers to MPI's int, so a large one arrives negative.
std::size_t size(int count) {
  if (count >= 0) return static_cast<std::size_t>(count);
  throw Error(ErrorCode::kInvalidArgument,
              "XLA asked MPI for a collective of more than 2^31 - 1 elements or bytes, which MPI cannot count");
}

std::size_t bytes_of(int count, Type type) { return size(count) * jaxina::mpi::data_type(type).bytes; }

using Posted = std::shared_ptr<jaxina::mpi::Peers::Receive>;

// The receives that this thread has posted and not yet waited for. At the first error XLA stops waiting and frees their
// memory, so abandon_all() must end them first.
thread_local std::vector<Posted> outstanding;

void abandon_all() {
  for (const Posted& posted : outstanding) jaxina::mpi::peers().abandon(posted);
  outstanding.clear();
}

}  // namespace

int not_provided(const char* name) {
  return returning([&] {
    throw Error(ErrorCode::kUnsupportedType,
                std::string(name) + " is not carried: XLA uses more of MPI than jaxina knows of");
  });
}

extern "C" {

// MPItrampoline checks these when it loads the library: the major version of the ABI must be equal, and the minor one
// must not be smaller than the one that it wants.
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
JAXINA_MPI_EXPORT extern const Type MPIABI_BYTE = Type::kUint8;
JAXINA_MPI_EXPORT extern const Type MPIABI_CHAR = Type::kInt8;
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

// XLA makes communicators only in the thread for which this is true, because some MPI libraries demand that. jaxina
// allows every thread.
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

JAXINA_MPI_EXPORT int MPIABI_Allgather(const void* in, int count, Type type, void* out, int, Type,
                                       Handle communicator) {
  return returning([&] { jaxina::mpi::all_gather(of(communicator), in, out, bytes_of(count, type)); });
}

// Blocks until the message is sent, so it needs no request: only receives have one.
JAXINA_MPI_EXPORT int MPIABI_Isend(const void* data, int count, Type type, int to, int tag, Handle communicator,
                                   Handle* request) {
  *request = 0;
  const int code = returning([&] { of(communicator).send(to, tag, data, bytes_of(count, type)); });
  if (code != kSuccess) abandon_all();
  return code;
}

JAXINA_MPI_EXPORT int MPIABI_Irecv(void* data, int count, Type type, int from, int tag, Handle communicator,
                                   Handle* request) {
  *request = 0;
  const int code = returning([&] {
    outstanding.push_back(of(communicator).post(from, tag, data, bytes_of(count, type)));
    *request = reinterpret_cast<Handle>(outstanding.back().get());
  });
  if (code != kSuccess) abandon_all();
  return code;
}

JAXINA_MPI_EXPORT int MPIABI_Wait(Handle* request, void*) {
  const auto wanted = reinterpret_cast<jaxina::mpi::Peers::Receive*>(std::exchange(*request, 0));
  const auto found = std::find_if(outstanding.begin(), outstanding.end(),
                                  [wanted](const Posted& posted) { return posted.get() == wanted; });
  if (found == outstanding.end()) return kSuccess;  // the request of a send, or of a receive that was abandoned
  const Posted posted = std::move(*found);
  outstanding.erase(found);
  const int code = returning([&] { jaxina::mpi::peers().wait(posted); });
  if (code != kSuccess) abandon_all();
  return code;
}

JAXINA_MPI_EXPORT int MPIABI_Waitall(int count, Handle* requests, void*) {
  int code = kSuccess;
  for (int i = 0; i < count && code == kSuccess; ++i) code = MPIABI_Wait(&requests[i], nullptr);
  return code;
}

JAXINA_MPI_EXPORT int MPIABI_Sendrecv(const void* out, int out_count, Type out_type, int to, int out_tag, void* in,
                                      int in_count, Type in_type, int from, int in_tag, Handle communicator, void*) {
  return returning([&] {
    const Communicator& all = of(communicator);
    const Posted posted = all.post(from, in_tag, in, bytes_of(in_count, in_type));
    try {
      all.send(to, out_tag, out, bytes_of(out_count, out_type));
    } catch (...) {
      jaxina::mpi::peers().abandon(posted);
      throw;
    }
    jaxina::mpi::peers().wait(posted);
  });
}

// Uses counts[0] for all processes, because XLA gives every process the same count.
JAXINA_MPI_EXPORT int MPIABI_Reduce_scatter(const void* in, void* out, const int* counts, Type type, Op op,
                                            Handle communicator) {
  return returning([&] { jaxina::mpi::reduce_scatter(of(communicator), in, out, size(counts[0]), type, op); });
}
}
