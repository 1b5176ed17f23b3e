// Keeps the names under one lock.
#include "xla_ffi/sum_names.h"

#include <map>
#include <mutex>

namespace jaxina {
namespace {

std::mutex mutex;

// The caller must hold the lock. It is never destroyed, because sums may fail while the process ends.
std::map<std::uint64_t, std::string>& all() {
  static auto* const names = new std::map<std::uint64_t, std::string>;
  return *names;
}

}  // namespace

void name_sums(const std::vector<std::pair<std::uint64_t, std::string>>& names) {
  const std::lock_guard lock(mutex);
  for (const auto& [identity, name] : names) all()[identity] = name;
}

Status with_name(const Status& status, std::uint64_t identity) {
  if (status.code != ErrorCode::kMismatch) return status;
  const std::lock_guard lock(mutex);
  const auto found = all().find(identity);
  if (found == all().end()) return status;
  return {status.code, status.message + ". In this process it is " + found->second +
                           ". If the others name the same sum, the programs differ in something else, for example in a "
                           "constant"};
}

}  // namespace jaxina
