#include "rdma_engine/engine/engine.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "rdma_engine/engine/node.h"

namespace jaxina {

struct Engine::State {
  mutable std::mutex mutex;
  bool running = false;
  Connector connector;
  Ended ended;
  bool trace = false;
  std::map<Group, std::shared_ptr<Node>> nodes;
  Statistics finished;  // of nodes that were shut down
  std::map<Group, std::unique_ptr<Recorder>> recorded;  // by them
};

namespace {

// The latest of a group that a trace keeps, in 25 MB: what two sums of 100 MB in datagrams of 1 KB make.
constexpr std::size_t kTraceEvents = 1 << 19;

void add(Statistics& sum, const Statistics& s) {
  sum.collectives += s.collectives;
  sum.elements += s.elements;
  sum.packets_sent += s.packets_sent;
  sum.packets_received += s.packets_received;
  sum.bytes_sent += s.bytes_sent;
  sum.bytes_received += s.bytes_received;
  sum.retransmissions += s.retransmissions;
  sum.packets_dropped += s.packets_dropped;
  sum.packets_rejected += s.packets_rejected;
  sum.staged_words += s.staged_words;
}

}  // namespace

Engine::Engine() : state_(std::make_unique<State>()) {}
Engine::~Engine() = default;

Engine& Engine::instance() {
  // Never destroyed: XLA's threads may still hold work when static destructors run.
  static Engine* engine = new Engine;
  return *engine;
}

void Engine::start(Connector connector, Ended ended, bool trace) {
  const std::lock_guard guard(state_->mutex);
  if (state_->running) throw Error(ErrorCode::kInvalidArgument, "jaxina is initialized already: call jaxina.shutdown() first");
  state_->connector = std::move(connector);
  state_->ended = std::move(ended);
  state_->trace = trace;
  state_->running = true;
  state_->finished = {};
  state_->recorded.clear();
}

void Engine::shutdown() {
  std::map<Group, std::shared_ptr<Node>> nodes;
  {
    const std::lock_guard guard(state_->mutex);
    state_->running = false;
    nodes.swap(state_->nodes);
  }
  for (auto& [group, node] : nodes) {
    node->close();
    const std::lock_guard guard(state_->mutex);
    add(state_->finished, node->statistics());
    if (auto recorder = node->take_recorder()) state_->recorded[group] = std::move(recorder);
  }
  const std::lock_guard guard(state_->mutex);
  state_->connector = nullptr;
  state_->ended = nullptr;
}

bool Engine::running() const {
  const std::lock_guard guard(state_->mutex);
  return state_->running;
}

void Engine::submit(const Group& group, std::int64_t device, Collective collective, Completion done) {
  const auto place = std::find(group.begin(), group.end(), device);
  if (place == group.end()) {
    return done({ErrorCode::kInvalidArgument, "device " + std::to_string(device) + " is not in the group it sums with"});
  }
  std::shared_ptr<Node> node;  // kept: shutdown() may come meanwhile
  {
    const std::lock_guard guard(state_->mutex);
    if (state_->running) {
      auto [known, is_new] = state_->nodes.try_emplace(group);
      if (is_new) {
        auto recorder = state_->trace ? std::make_unique<Recorder>(kTraceEvents) : nullptr;
        known->second = std::make_shared<Node>(group, state_->connector, state_->ended, std::move(recorder));
      }
      node = known->second;
    }
  }
  if (!node) return done({ErrorCode::kNotInitialized, "a psum ran outside jaxina.init() and jaxina.shutdown()"});
  node->submit(static_cast<std::uint32_t>(place - group.begin()), std::move(collective), std::move(done));
}

void Engine::abort(const Group& group, Status reason) {
  const std::lock_guard guard(state_->mutex);
  for (auto& [known, node] : state_->nodes) {
    if (group.empty() || known == group) node->abort(reason);
  }
}

std::map<Group, std::unique_ptr<Recorder>> Engine::take_trace() {
  const std::lock_guard guard(state_->mutex);
  return std::exchange(state_->recorded, {});
}

Statistics Engine::statistics() const {
  const std::lock_guard guard(state_->mutex);
  Statistics sum = state_->finished;
  for (const auto& [group, node] : state_->nodes) add(sum, node->statistics());
  return sum;
}

}  // namespace jaxina
