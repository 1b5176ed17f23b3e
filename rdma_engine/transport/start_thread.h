// start_thread: starts a thread, and turns failure into an Error that says what to do.
#pragma once

#include <system_error>
#include <thread>
#include <utility>

#include "rdma_engine/errors.h"

namespace jaxina {

// Throws Error(kSystem).
template <typename Body>
std::thread start_thread(Body body) {
  try {
    return std::thread(std::move(body));
  } catch (const std::system_error& error) {
    throw Error(ErrorCode::kSystem,
                "cannot start a thread: " + error.code().message() + ". Raise ulimit -u or the cgroup's pids limit");
  }
}

}  // namespace jaxina
