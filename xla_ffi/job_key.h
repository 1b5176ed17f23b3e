// key_of: takes a job's key from Python.
#pragma once

#include <nanobind/nanobind.h>

#include <cstring>
#include <optional>
#include <string>

#include "rdma_engine/encryption/job_key.h"
#include "rdma_engine/errors.h"

namespace jaxina {

// Nothing for b"": the job's packets are in the clear. The caller must hold the GIL. Throws Error(kInvalidArgument) if
// it is no key.
inline std::optional<JobKey> key_of(const nanobind::bytes& given) {
  if (given.size() == 0) return std::nullopt;
  JobKey key;
  if (given.size() != key.bytes.size()) {
    throw Error(ErrorCode::kInvalidArgument,
                "a job's key has " + std::to_string(key.bytes.size()) + " bytes, not " + std::to_string(given.size()));
  }
  std::memcpy(key.bytes.data(), given.c_str(), key.bytes.size());
  return key;
}

}  // namespace jaxina
