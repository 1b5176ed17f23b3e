// The embedded transport under a schedule that the seed draws. Its workers share slots and take turns in one thread;
// each runs as far as it can. Deaths take real time to notice, so tests with processes cover them.
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "rdma_engine/sim/simulation.h"
#include "rdma_engine/transport/endpoint.h"

namespace jaxina::sim {
namespace {

constexpr std::uint64_t kMostTurns = 1'000'000;

// Blocks until all workers have joined, each in its own thread.
std::vector<std::unique_ptr<Endpoint>> join_all(const JobShape& shape, std::uint64_t seed, std::uint64_t secret) {
  std::vector<std::unique_ptr<Endpoint>> endpoints(shape.workers());
  std::vector<std::jthread> threads;
  for (std::uint32_t w = 0; w < shape.workers(); ++w) {
    threads.emplace_back([&, w] {
      endpoints[w] = make_endpoint(
          Membership{.shape = shape, .worker = w, .job = static_cast<std::uint32_t>(seed), .secret = secret},
          EmbeddedConfig{});
    });
  }
  threads.clear();
  return endpoints;
}

class Turns {
 public:
  Turns(const Plan& plan, Random& random, Trace* trace)
      : plan_(plan.jobs.front()),
        random_(random),
        trace_(trace),
        workload_(plan_, random),
        endpoints_(join_all(plan_.shape, plan.seed, random.next())),
        workers_(plan_.shape.workers()) {}

  Outcome run() {
    std::size_t left = workers_.size();
    for (turn_ = 0; left > 0 && outcome_.failure.empty(); ++turn_) {
      if (turn_ == kMostTurns) fail("liveness: workers take turns and nothing comes of it");
      const auto w = static_cast<std::uint32_t>(random_.below(workers_.size()));
      if (workers_[w].completed == workload_.collectives()) continue;
      if (workers_[w].stopped_until > turn_) continue;
      if (random_.one_in(8)) workers_[w].stopped_until = turn_ + random_.below(8 * workers_.size());
      take_turn(w);
      if (workers_[w].completed == workload_.collectives()) --left;
    }
    if (outcome_.failure.empty()) ++outcome_.jobs_finished;
    return outcome_;
  }

 private:
  struct At {
    std::size_t submitted = 0, completed = 0;
    std::uint64_t stopped_until = 0;
  };

  void take_turn(std::uint32_t w) {
    At& at = workers_[w];
    Worker& worker = endpoints_[w]->worker();
    while (at.submitted < workload_.collectives() && at.submitted - at.completed < plan_.ahead && !random_.one_in(4)) {
      worker.submit(workload_.collective(at.submitted++, w));
    }
    const Status status = endpoints_[w]->progress(0);
    if (!status.ok()) return fail("a worker failed: " + status.text());
    for (std::size_t popped = worker.pop_completed(); popped > 0; --popped) {
      if (!workload_.is_exact(at.completed++, w)) fail("a delivered sum is wrong");
      ++outcome_.sums;
    }
    if (worker.in_flight() > plan_.shape.slots()) fail("memory: more passes in flight than slots");
    const std::uint64_t state = turn_ << 24 ^ std::uint64_t{w} << 16 ^ at.submitted << 8 ^ at.completed;
    outcome_.log_hash = (outcome_.log_hash ^ state) * 0x9fb21c651e98df25 ^ (outcome_.log_hash >> 29);
    if (trace_ == nullptr) return;
    trace_->add(static_cast<Nanoseconds>(turn_), 0, Trace::kEverySlot,
                "w" + std::to_string(w) + ": collectives submitted " + std::to_string(at.submitted) + ", summed " +
                    std::to_string(at.completed) + ", passes in flight " + std::to_string(worker.in_flight()));
  }
  void fail(const std::string& what) {
    if (outcome_.failure.empty()) outcome_.failure = what + " (turn " + std::to_string(turn_) + ")";
  }

  const JobPlan& plan_;
  Random& random_;
  Trace* trace_;
  Workload workload_;
  std::vector<std::unique_ptr<Endpoint>> endpoints_;
  std::vector<At> workers_;
  std::uint64_t turn_ = 0;
  Outcome outcome_;
};

}  // namespace

Outcome simulate_shared_memory(const Plan& plan, Random random, Trace* trace) {
  return Turns(plan, random, trace).run();
}

}  // namespace jaxina::sim
