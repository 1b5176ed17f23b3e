// PoolRoom: the memory that the jobs of a switch take together. It is limited, because anybody may ask for a job.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "rdma_engine/errors.h"

namespace jaxina {

inline constexpr std::size_t kMaxPoolBytes = std::size_t{1} << 30;

class PoolRoom {
 public:
  // Throws Error(kJobRejected) if the id is in use, or if there is not so much room.
  void check(std::uint32_t id, std::size_t bytes) const {
    if (jobs_.contains(id)) throw Error(ErrorCode::kJobRejected, "job " + std::to_string(id) + " exists already");
    std::size_t left = kMaxPoolBytes;
    for (const auto& [other, taken] : jobs_) left -= std::min(left, taken);
    if (bytes <= left) return;
    throw Error(ErrorCode::kJobRejected, "the job's pool takes " + std::to_string(bytes >> 20) +
                                             " MiB, and the switch has " + std::to_string(left >> 20) +
                                             " MiB left for pools: lower the slots or the chunk");
  }
  // Only what check() has found to be free.
  void take(std::uint32_t id, std::size_t bytes) { jobs_[id] = bytes; }
  void give_back(std::uint32_t id) { jobs_.erase(id); }

  // The bytes of each job, by its id.
  const std::map<std::uint32_t, std::size_t>& jobs() const { return jobs_; }

 private:
  std::map<std::uint32_t, std::size_t> jobs_;
};

}  // namespace jaxina
