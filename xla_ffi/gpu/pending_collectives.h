// The collectives that a program has started and not yet finished. XLA calls two handlers for one psum: the first hands
// it to the engine and returns, the second waits for its end. The second finds what the first started by the run of the
// program, the device and the call's identity. A call in a loop comes several times with the same key; its starts and
// finishes come in the same order, so a queue per key matches them.
#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "rdma_engine/errors.h"

namespace jaxina {

class PendingCollectives {
 public:
  struct Key {
    std::int64_t run;
    std::int64_t device;
    std::int64_t identity;
    auto operator<=>(const Key&) const = default;
  };
  using Buffers = std::vector<const void*>;
  using Ending = std::shared_ptr<std::promise<Status>>;

  // One run of a program on a device, made before its first start. XLA destroys it when the run is over, even if the
  // run failed between a start and its finish, and frees the run's buffers afterwards. So the destructor waits until no
  // collective of the run uses the buffers. The collectives' timeout bounds that wait.
  class Run {
   public:
    Run(PendingCollectives& pending, std::int64_t run, std::int64_t device)
        : pending_(pending), run_(run), device_(device) {}
    ~Run() { pending_.wait_for_all(run_, device_); }
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;

   private:
    PendingCollectives& pending_;
    const std::int64_t run_, device_;
  };

  // Adds a collective that has been started. The caller must set the returned promise exactly once, to how the
  // collective ended. `results`: where its sums will lie.
  Ending add(const Key& key, Buffers results);

  // Waits for the end of the oldest collective with this key and returns its status. Fails with kInvalidArgument if
  // there is none, or if `results` differ from what add() was given: then XLA moved the results while they were being
  // written. Before it returns a failure, it waits until no collective of this run and device uses its buffers, because
  // XLA then frees them.
  Status finish(const Key& key, const Buffers& results);

 private:
  struct Pending {
    Buffers results;
    std::future<Status> ended;
  };
  Status wait_for(const Key& key, const Buffers& results);
  void wait_for_all(std::int64_t run, std::int64_t device);

  std::mutex mutex_;
  std::map<Key, std::deque<Pending>> pending_;
};

}  // namespace jaxina
