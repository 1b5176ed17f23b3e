#include "rdma_engine/errors.h"

namespace jaxina {

std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::kOk: return "OK";
    case ErrorCode::kNotInitialized: return "NOT_INITIALIZED";
    case ErrorCode::kUnsupportedType: return "UNSUPPORTED_TYPE";
    case ErrorCode::kInvalidArgument: return "INVALID_ARGUMENT";
    case ErrorCode::kTooManyWorkers: return "TOO_MANY_WORKERS";
    case ErrorCode::kRankTaken: return "RANK_TAKEN";
    case ErrorCode::kNeverJoined: return "NEVER_JOINED";
    case ErrorCode::kMismatch: return "MISMATCH";
    case ErrorCode::kWorkerLost: return "WORKER_LOST";
    case ErrorCode::kTimeout: return "TIMEOUT";
    case ErrorCode::kSwitchUnreachable: return "SWITCH_UNREACHABLE";
    case ErrorCode::kJobRejected: return "JOB_REJECTED";
    case ErrorCode::kSharedMemory: return "SHARED_MEMORY";
    case ErrorCode::kSystem: return "SYSTEM";
    case ErrorCode::kGpu: return "GPU";
    case ErrorCode::kShutDown: return "SHUT_DOWN";
    case ErrorCode::kNotSummed: return "NOT_SUMMED";
  }
  return "UNKNOWN";
}

std::string Status::text() const { return "jaxina[" + std::string(to_string(code)) + "]: " + message; }

}  // namespace jaxina
