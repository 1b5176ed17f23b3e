// Counts the floats of each program's sums, under one lock.
#include "xla_ffi/sum_counts.h"

#include <atomic>
#include <mutex>

namespace jaxina {
namespace {

struct Counting {
  std::uint64_t floats = 0;
  std::atomic<std::uint64_t> rounded_to_zero = 0;
};

std::mutex mutex;

// The caller must hold the lock. Entries never move and are never removed, because collectives under way keep pointers
// to them.
std::map<std::uint64_t, Counting>& all() {
  static auto* const counts = new std::map<std::uint64_t, Counting>;
  return *counts;
}

}  // namespace

void count_sum(std::uint64_t name, Collective& collective) {
  std::uint64_t floats = 0;
  for (const Tensor& tensor : collective.tensors) {
    if (numerics::element_codec(tensor.type).is_float) floats += tensor.count;
  }
  const std::lock_guard lock(mutex);
  Counting& counting = all()[name];
  counting.floats += floats;
  collective.rounded_to_zero = &counting.rounded_to_zero;
}

std::map<std::uint64_t, SumCounts> sum_counts() {
  const std::lock_guard lock(mutex);
  std::map<std::uint64_t, SumCounts> result;
  for (const auto& [name, counting] : all()) result[name] = {counting.floats, counting.rounded_to_zero.load()};
  return result;
}

}  // namespace jaxina
