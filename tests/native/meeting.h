// Where the workers of a ring exchange their ends, as they do at a control service.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "rdma_engine/messages/connection_end.h"

namespace jaxina::testing {

class Meeting {
 public:
  using Ends = std::span<const roce::ConnectionEnd>;
  // `complete` is called once all have come, before any goes on.
  explicit Meeting(
      std::size_t workers, std::function<void(Ends)> complete = [](Ends) {})
      : complete_(std::move(complete)), ends_(workers) {}

  roce::RingNeighbours exchange(std::size_t worker, const roce::ConnectionEnd& end) {
    std::unique_lock lock(mutex_);
    ends_[worker] = end;
    if (++come_ == ends_.size()) {
      complete_(ends_);
      is_complete_ = true;
    }
    changed_.notify_all();
    changed_.wait(lock, [this] { return is_complete_; });
    return {ends_[(worker + 1) % ends_.size()], ends_[(worker + ends_.size() - 1) % ends_.size()]};
  }

 private:
  std::function<void(Ends)> complete_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<roce::ConnectionEnd> ends_;
  std::size_t come_ = 0;
  bool is_complete_ = false;
};

}  // namespace jaxina::testing
