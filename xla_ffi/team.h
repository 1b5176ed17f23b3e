// The team that this process sums with in the step it is at: members that are known at run time only.
#pragma once

#include <cstdint>
#include <optional>

#include "rdma_engine/engine/engine.h"

namespace jaxina {

struct Team {
  Group group;          // of all members' numbers
  std::int64_t member;  // this process's number
  std::uint64_t step;  // the attempt at a step, different for each. Sums of different attempts are never added together
};

// The team of the sums that run from now on; none: they fail. Thread-safe.
void set_team(std::optional<Team> team);
std::optional<Team> team();

}  // namespace jaxina
