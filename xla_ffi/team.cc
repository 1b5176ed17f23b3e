#include "xla_ffi/team.h"

#include <mutex>
#include <utility>

namespace jaxina {
namespace {

std::mutex mutex;
std::optional<Team> current;

}  // namespace

void set_team(std::optional<Team> team) {
  const std::lock_guard guard(mutex);
  current = std::move(team);
}

std::optional<Team> team() {
  const std::lock_guard guard(mutex);
  return current;
}

}  // namespace jaxina
