#include "rdma_engine/engine/engine.h"

#include <pthread.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "rdma_engine/engine/node.h"

namespace jaxina {

struct Engine::State {
  mutable std::mutex mutex;
  bool running = false;
  bool forked = false;  // this process was forked from one where the engine ran, and has not called start() since
  // The parent's state. Its locks and threads are as the fork found them, so it is never touched again.
  State* of_parent = nullptr;
  Connector connector;
  Ended ended;
  bool trace = false;
  std::map<Group, std::shared_ptr<Node>> nodes;
  Counters finished;                                    // counters of nodes that were shut down
  std::map<Group, std::unique_ptr<Recorder>> recorded;  // recorders of nodes that were shut down
};

namespace {

// How many of a group's latest events a trace keeps, in 25 MB: two sums of 100 MB in datagrams of 1 KB make this many.
constexpr std::size_t kTraceEvents = 1 << 19;

constexpr char kForked[] = "this process was forked after jaxina.init(); use spawn, or call jaxina.init() in the child";

}  // namespace

Engine::Engine() : state_(std::make_unique<State>()) {}
Engine::~Engine() = default;

Group second_stream(Group group) {
  for (std::int64_t& device : group) device += kSecondStream;
  return group;
}

Engine& Engine::instance() {
  // Never destroyed: XLA's threads may still hold work when static destructors run.
  static Engine* const engine = [] {
    static Engine* const made = new Engine;
    pthread_atfork(nullptr, nullptr, [] { made->after_fork_in_child(); });
    return made;
  }();
  return *engine;
}

void Engine::after_fork_in_child() {
  State* const parents = state_.release();
  state_ = std::make_unique<State>();
  state_->of_parent = parents;
  state_->forked = parents->running || parents->forked;
}

void Engine::check_not_forked() const {
  if (state_->forked) throw Error(ErrorCode::kNotInitialized, kForked);
}

void Engine::start(Connector connector, Ended ended, bool trace) {
  const std::lock_guard guard(state_->mutex);
  if (state_->running)
    throw Error(ErrorCode::kInvalidArgument, "jaxina is initialized already: call jaxina.shutdown() first");
  state_->connector = std::move(connector);
  state_->ended = std::move(ended);
  state_->trace = trace;
  state_->running = true;
  state_->forked = false;
  state_->finished = {};
  state_->recorded.clear();
}

void Engine::shutdown() {
  std::map<Group, std::shared_ptr<Node>> nodes;
  // Dropped when this returns, without the lock: dropping a Python callable takes the GIL, and whoever holds that may
  // be waiting for the lock.
  Connector connector;
  Ended ended;
  {
    const std::lock_guard guard(state_->mutex);
    check_not_forked();
    state_->running = false;
    nodes.swap(state_->nodes);
    connector.swap(state_->connector);
    ended.swap(state_->ended);
  }
  for (auto& [group, node] : nodes) {
    node->close();
    const std::lock_guard guard(state_->mutex);
    state_->finished += node->statistics();
    if (auto recorder = node->take_recorder()) state_->recorded[group] = std::move(recorder);
  }
}

bool Engine::running() const {
  const std::lock_guard guard(state_->mutex);
  return state_->running;
}

void Engine::submit(const Group& group, std::int64_t device, Collective collective, Completion done) {
  const auto place = std::find(group.begin(), group.end(), device);
  if (place == group.end()) {
    return done(
        {ErrorCode::kInvalidArgument, "device " + std::to_string(device) + " is not in the group it sums with"});
  }
  std::shared_ptr<Node> node;  // a copy, because shutdown() may run meanwhile
  bool forked = false;
  {
    const std::lock_guard guard(state_->mutex);
    forked = state_->forked;
    if (state_->running) {
      auto [known, is_new] = state_->nodes.try_emplace(group);
      if (is_new) {
        auto recorder = state_->trace ? std::make_unique<Recorder>(kTraceEvents) : nullptr;
        known->second = std::make_shared<Node>(group, state_->connector, state_->ended, std::move(recorder));
      }
      node = known->second;
    }
  }
  if (!node) {
    return done(
        {ErrorCode::kNotInitialized, forked ? kForked : "a psum ran outside jaxina.init() and jaxina.shutdown()"});
  }
  const auto index = static_cast<std::uint32_t>(place - group.begin());
  const std::shared_ptr<UnderWay> under_way = node->under_way();
  under_way->begin(index, collective.identity);
  node->submit(index, std::move(collective), [under_way, index, done = std::move(done)](Status status) {
    under_way->end(index);
    done(std::move(status));
  });
}

void Engine::abort(const Group& group, const Status& reason) {
  const std::lock_guard guard(state_->mutex);
  check_not_forked();
  for (auto& [known, node] : state_->nodes) {
    if (group.empty() || known == group) node->abort(reason);
  }
}

std::map<Group, std::unique_ptr<Recorder>> Engine::take_trace() {
  const std::lock_guard guard(state_->mutex);
  check_not_forked();
  return std::exchange(state_->recorded, {});
}

Counters Engine::statistics() const {
  const std::lock_guard guard(state_->mutex);
  check_not_forked();
  Counters sum = state_->finished;
  for (const auto& [group, node] : state_->nodes) sum += node->statistics();
  return sum;
}

std::map<Group, std::vector<UnderWay::Device>> Engine::under_way() const {
  const std::lock_guard guard(state_->mutex);
  check_not_forked();
  std::map<Group, std::vector<UnderWay::Device>> result;
  for (const auto& [group, node] : state_->nodes) result[group] = node->under_way()->devices();
  return result;
}

}  // namespace jaxina
