// Lanes: the data threads of a switch, and the jobs on them. A lane is a thread with its own engine. Every lane knows
// all jobs; slot i of a job belongs to lane i mod T. So no two lanes share a slot, and packets are processed without
// locks.
//
// Slow work happens on the calling thread: a job's memory is allocated before the lanes receive it, and freed after
// they have returned it.
//
// An Engine is a PacketEngine with a type Job and
//   bool add(std::unique_ptr<Job>), std::unique_ptr<Job> remove(job), void abort(job, reason),
//   const Aggregator* find(job), const Counters* counters_of(job), void count(SwitchCounters&)
#pragma once

#include <chrono>
#include <future>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rdma_engine/aggregator/aggregator.h"
#include "rdma_engine/shape/job_spec.h"
#include "rdma_engine/switch/data_thread.h"
#include "rdma_engine/switch/pool_room.h"
#include "rdma_engine/switch/switch_counters.h"

namespace jaxina {

// Thread-safe. The methods wait for the data threads, for a limited time. They throw Error(kSystem) if a thread does
// not answer, and Error(kShutDown) after stop().
template <typename Engine>
class Lanes {
 public:
  using Job = typename Engine::Job;

  // `timeout` is how long a command waits. Throws Error(kSystem) if the system cannot start another thread.
  explicit Lanes(std::vector<std::unique_ptr<Engine>> engines,
                 std::chrono::milliseconds timeout = std::chrono::seconds(5))
      : timeout_(timeout) {
    for (auto& engine : engines) lanes_.push_back(std::make_unique<Lane>(std::move(engine)));
  }

  // Adds a job. make(shard) creates the job's part for one lane; `bytes` is what all parts take together. Throws
  // Error(kJobRejected) if the id is in use or memory is short. After any failure no lane has the job.
  template <typename Make>
  void add_job(std::uint32_t id, std::size_t bytes, Make make) {
    const std::lock_guard lock(mutex_);
    check_running();
    room_.check(id, bytes);
    std::vector<std::unique_ptr<Job>> parts;
    try {
      for (std::size_t i = 0; i < lanes_.size(); ++i) parts.push_back(make(shard(i)));
    } catch (const std::bad_alloc&) {
      throw Error(ErrorCode::kJobRejected, "the switch's host has no memory left for the job's pool");
    }
    room_.take(id, bytes);
    try {
      on_each([&parts](std::size_t lane, Engine& engine) {
        return [&engine, part = std::make_shared<std::unique_ptr<Job>>(std::move(parts[lane]))] {
          return engine.add(std::move(*part));
        };
      });
    } catch (...) {
      forget(id);
      throw;
    }
  }

  // Removes a job. If it does not exist, nothing happens.
  void remove_job(std::uint32_t id) {
    const std::lock_guard lock(mutex_);
    if (!room_.jobs().contains(id)) return;
    forget(id);
  }

  // Ends the job. Workers heard from so far are told at once; from now on every packet of the job is answered with
  // `reason`.
  void abort_job(std::uint32_t id, const Status& reason) {
    const std::lock_guard lock(mutex_);
    on_each([&](std::size_t, Engine& engine) {
      return [&engine, id, reason] {
        engine.abort(id, reason);
        return true;
      };
    });
  }

  SwitchCounters statistics() {
    const std::lock_guard lock(mutex_);
    std::vector<std::uint32_t> ids;
    for (const auto& [id, bytes] : room_.jobs()) ids.push_back(id);
    SwitchCounters sum;
    for (const SwitchCounters& part : on_each([&](std::size_t, Engine& engine) {
           return [&engine, ids] {
             SwitchCounters counters;
             for (const std::uint32_t id : ids) {
               if (const Counters* of_job = engine.counters_of(id)) counters.jobs[id] = *of_job;
             }
             engine.count(counters);
             return counters;
           };
         })) {
      for (const auto& [id, counters] : part.jobs) sum.jobs[id] += counters;
      sum.without_job += part.without_job;
      sum.entries += part.entries;
      sum.entries_held += part.entries_held;
      sum.sockets += part.sockets;
    }
    return sum;
  }

  // The workers that an incomplete pass of the job waits for, in ascending order.
  std::vector<std::uint32_t> missing(std::uint32_t id) {
    const std::lock_guard lock(mutex_);
    WorkerSet workers{};
    for (const WorkerSet& part : on_each([&](std::size_t, Engine& engine) {
           return [&engine, id] {
             const Aggregator* aggregator = engine.find(id);
             return aggregator != nullptr ? aggregator->missing() : WorkerSet{};
           };
         })) {
      for (std::size_t i = 0; i < workers.size(); ++i) workers[i] |= part[i];
    }
    std::vector<std::uint32_t> result;
    for (std::uint32_t worker = 0; worker < numerics::kMaxWorkers; ++worker) {
      if (contains(workers, worker)) result.push_back(worker);
    }
    return result;
  }

  // See Aggregator::inspect.
  std::optional<SlotContents> inspect(std::uint32_t id, std::uint32_t slot, std::uint32_t version) {
    const std::lock_guard lock(mutex_);
    for (auto& part : on_each([&](std::size_t, Engine& engine) {
           return [&engine, id, slot, version]() -> std::optional<SlotContents> {
             const Aggregator* aggregator = engine.find(id);
             return aggregator != nullptr ? aggregator->inspect(slot, version) : std::nullopt;
           };
         })) {
      if (part) return std::move(part);
    }
    return std::nullopt;
  }

  // Runs command(engine) on the first lane. For switches with a single lane.
  template <typename Command>
  auto on_first(Command command) {
    const std::lock_guard lock(mutex_);
    check_running();
    Engine& engine = *lanes_.front()->engine;
    auto future =
        lanes_.front()->thread.post([&engine, command = std::move(command)]() mutable { return command(engine); });
    return wait_for(future, deadline());
  }

  // Ends the threads and closes their engines' sockets.
  void stop() {
    const std::lock_guard lock(mutex_);
    lanes_.clear();
  }

 private:
  using Clock = std::chrono::steady_clock;

  struct Lane {
    explicit Lane(std::unique_ptr<Engine> e) : engine(std::move(e)), thread(*engine) {}
    std::unique_ptr<Engine> engine;
    DataThread thread;  // declared last, so it ends before the engine is destroyed
  };

  Clock::time_point deadline() const { return Clock::now() + timeout_; }
  Shard shard(std::size_t lane) const {
    return {static_cast<std::uint32_t>(lane), static_cast<std::uint32_t>(lanes_.size())};
  }

  void check_running() const {
    if (lanes_.empty()) throw Error(ErrorCode::kShutDown, "the switch has been stopped");
  }

  // Posts to all lanes before waiting for any, so they work in parallel.
  template <typename CommandFor>
  auto on_each(CommandFor command_for) {
    check_running();
    using Future = decltype(lanes_.front()->thread.post(command_for(std::size_t{0}, *lanes_.front()->engine)));
    std::vector<Future> futures;
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
      futures.push_back(lanes_[i]->thread.post(command_for(i, *lanes_[i]->engine)));
    }
    const Clock::time_point end = deadline();
    std::vector<decltype(futures.front().get())> values;
    for (Future& future : futures) values.push_back(wait_for(future, end));
    return values;
  }

  template <typename Value>
  Value wait_for(std::future<Value>& future, Clock::time_point end) const {
    if (future.wait_until(end) == std::future_status::ready) return future.get();
    throw Error(ErrorCode::kSystem, "a thread of the switch has not answered for " + std::to_string(timeout_.count()) +
                                        " ms; is the machine overloaded?");
  }

  // Removes the job from all lanes, after everything they were told about it before. Frees the job's memory here if
  // they answer in time.
  void forget(std::uint32_t id) {
    room_.give_back(id);
    std::vector<std::future<std::unique_ptr<Job>>> parts;
    for (const auto& lane : lanes_) {
      Engine& engine = *lane->engine;
      parts.push_back(lane->thread.post([&engine, id] { return engine.remove(id); }));
    }
    const Clock::time_point end = deadline();
    for (auto& part : parts) {
      if (part.wait_until(end) == std::future_status::ready) part.get();
    }
  }

  const std::chrono::milliseconds timeout_;
  std::mutex mutex_;  // one command at a time
  PoolRoom room_;
  std::vector<std::unique_ptr<Lane>> lanes_;
};

}  // namespace jaxina
