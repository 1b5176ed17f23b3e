// The error codes that cross module boundaries, and the two types that carry them: Status on the data path, Error (an
// exception) during setup. Python has one exception class per code (jaxina/errors.py). An XLA error message starts with
// `jaxina[CODE]`, which tells jaxina which class to raise.
#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <utility>

namespace jaxina {

enum class ErrorCode {
  kOk,
  kNotInitialized,     // a psum ran before jaxina.init()
  kUnsupportedType,    // a dtype that jaxina does not carry
  kInvalidArgument,    // a configuration value that cannot work
  kTooManyWorkers,     // more workers than the aggregator or the format allows
  kRankTaken,          // two workers claim one rank
  kNeverJoined,        // a worker did not join within the join deadline
  kMismatch,           // workers disagree about what they sum
  kWorkerLost,         // a worker died
  kTimeout,            // a collective did not finish within its deadline
  kSwitchUnreachable,  // the aggregator or switch does not answer
  kJobRejected,        // the aggregator refuses this job, secret or incarnation
  kSharedMemory,       // the shared-memory segment cannot be created, sized or mapped
  kSystem,             // an operating-system call failed
  kGpu,                // a CUDA call failed
  kShutDown,           // jaxina.shutdown() was called while work was pending
  kNotSummed,          // a switch passes on what it should sum
};
inline constexpr ErrorCode kLastErrorCode = ErrorCode::kNotSummed;

// The code's name as messages show it, e.g. "WORKER_LOST".
std::string_view to_string(ErrorCode code);

// A code and a sentence that names the cause and the remedy.
struct Status {
  ErrorCode code = ErrorCode::kOk;
  std::string message;

  Status() = default;
  Status(ErrorCode c, std::string m) : code(c), message(std::move(m)) {}
  bool ok() const { return code == ErrorCode::kOk; }
  // "jaxina[CODE]: message"
  std::string text() const;
};

// Thrown during setup. The data path returns Status instead.
class Error : public std::exception {
 public:
  Error(ErrorCode code, std::string message) : status_(code, std::move(message)), text_(status_.text()) {}
  explicit Error(Status status) : status_(std::move(status)), text_(status_.text()) {}
  const Status& status() const { return status_; }
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  Status status_;
  std::string text_;
};

}  // namespace jaxina
