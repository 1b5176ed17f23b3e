// Maps each of jaxina's error codes to XLA's nearest one.
#include "xla_ffi/error_codes.h"

namespace jaxina {

xla::ffi::ErrorCode to_xla(ErrorCode code) {
  using Xla = xla::ffi::ErrorCode;
  switch (code) {
    case ErrorCode::kOk: return Xla::kOk;
    case ErrorCode::kNotInitialized: return Xla::kFailedPrecondition;
    case ErrorCode::kUnsupportedType: return Xla::kUnimplemented;
    case ErrorCode::kInvalidArgument: return Xla::kInvalidArgument;
    case ErrorCode::kTooManyWorkers: return Xla::kOutOfRange;
    case ErrorCode::kRankTaken: return Xla::kAlreadyExists;
    case ErrorCode::kNeverJoined: return Xla::kDeadlineExceeded;
    case ErrorCode::kMismatch: return Xla::kInvalidArgument;
    case ErrorCode::kWorkerLost: return Xla::kUnavailable;
    case ErrorCode::kTimeout: return Xla::kDeadlineExceeded;
    case ErrorCode::kSwitchUnreachable:
    case ErrorCode::kNotSummed: return Xla::kUnavailable;
    case ErrorCode::kJobRejected: return Xla::kPermissionDenied;
    case ErrorCode::kSharedMemory: return Xla::kResourceExhausted;
    case ErrorCode::kSystem:
    case ErrorCode::kGpu: return Xla::kInternal;
    case ErrorCode::kShutDown: return Xla::kCancelled;
  }
  return Xla::kUnknown;
}

xla::ffi::Error to_xla(const Status& status) {
  if (status.ok()) return xla::ffi::Error::Success();
  return xla::ffi::Error(to_xla(status.code), status.text());
}

}  // namespace jaxina
