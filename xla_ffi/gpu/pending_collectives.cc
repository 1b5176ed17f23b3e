// Matches starts and finishes of collectives, and waits for those whose program has failed in between.
#include "xla_ffi/gpu/pending_collectives.h"

#include <limits>
#include <utility>

#include "xla_ffi/misfit.h"

namespace jaxina {

PendingCollectives::Ending PendingCollectives::add(const Key& key, Buffers results) {
  auto ending = std::make_shared<std::promise<Status>>();
  const std::lock_guard guard(mutex_);
  pending_[key].push_back({std::move(results), ending->get_future()});
  return ending;
}

Status PendingCollectives::finish(const Key& key, const Buffers& results) {
  Status status = wait_for(key, results);
  if (!status.ok()) wait_for_all(key.run, key.device);
  return status;
}

void PendingCollectives::wait_for_all(std::int64_t run, std::int64_t device) {
  std::vector<Pending> started;
  {
    const std::lock_guard guard(mutex_);
    constexpr std::int64_t first = std::numeric_limits<std::int64_t>::min();
    auto it = pending_.lower_bound({run, device, first});
    while (it != pending_.end() && it->first.run == run && it->first.device == device) {
      for (Pending& pending : it->second) started.push_back(std::move(pending));
      it = pending_.erase(it);
    }
  }
  for (Pending& pending : started) pending.ended.wait();
}

Status PendingCollectives::wait_for(const Key& key, const Buffers& results) {
  Pending oldest;
  {
    const std::lock_guard guard(mutex_);
    const auto found = pending_.find(key);
    if (found == pending_.end()) {
      return misfit("a psum is to be finished that was not started");
    }
    oldest = std::move(found->second.front());
    found->second.pop_front();
    if (found->second.empty()) pending_.erase(found);
  }
  Status status = oldest.ended.get();
  if (status.ok() && oldest.results != results) {
    status = {ErrorCode::kInvalidArgument,
              "XLA moved the result of a psum before it was complete: please report this "
              "program, and leave jaxina switched off for it"};
  }
  return status;
}

}  // namespace jaxina
