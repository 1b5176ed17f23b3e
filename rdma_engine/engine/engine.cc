#include "rdma_engine/engine/engine.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "rdma_engine/engine/member.h"

namespace jaxina {

struct Engine::State {
  mutable std::mutex mutex;
  bool running = false;
  Connector connector;
  std::map<std::pair<Group, std::int64_t>, std::unique_ptr<GroupMember>> members;
  Statistics finished;  // of members that were shut down
};

namespace {

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
}

}  // namespace

Engine::Engine() : state_(std::make_unique<State>()) {}
Engine::~Engine() = default;

Engine& Engine::instance() {
  // Never destroyed: XLA's threads may still hold work when static destructors run.
  static Engine* engine = new Engine;
  return *engine;
}

void Engine::start(Connector connector) {
  const std::lock_guard guard(state_->mutex);
  if (state_->running) throw Error(ErrorCode::kInvalidArgument, "jaxina is initialized already: call jaxina.shutdown() first");
  state_->connector = std::move(connector);
  state_->running = true;
  state_->finished = {};
}

void Engine::shutdown() {
  std::vector<std::unique_ptr<GroupMember>> members;
  {
    const std::lock_guard guard(state_->mutex);
    state_->running = false;
    for (auto& [key, member] : state_->members) members.push_back(std::move(member));
    state_->members.clear();
  }
  for (std::unique_ptr<GroupMember>& member : members) {
    const Statistics last = member->statistics();
    member.reset();
    const std::lock_guard guard(state_->mutex);
    add(state_->finished, last);
  }
  const std::lock_guard guard(state_->mutex);
  state_->connector = nullptr;
}

bool Engine::running() const {
  const std::lock_guard guard(state_->mutex);
  return state_->running;
}

void Engine::submit(const Group& group, std::int64_t device, Collective collective, Completion done) {
  Status refused;
  {
    // Held to the end: a member must not be destroyed by the thread that submits, which may be one of its own.
    const std::lock_guard guard(state_->mutex);
    const auto place = std::find(group.begin(), group.end(), device);
    if (!state_->running) {
      refused = {ErrorCode::kNotInitialized, "a psum ran outside jaxina.init() and jaxina.shutdown()"};
    } else if (place == group.end()) {
      refused = {ErrorCode::kInvalidArgument, "device " + std::to_string(device) + " is not in the group it sums with"};
    } else {
      auto [known, is_new] = state_->members.try_emplace({group, device});
      if (is_new) {
        const auto index = static_cast<std::uint32_t>(place - group.begin());
        known->second = std::make_unique<GroupMember>(group, index, state_->connector);
      }
      return known->second->submit(std::move(collective), std::move(done));
    }
  }
  done(refused);
}

void Engine::abort(const Group& group, Status reason) {
  const std::lock_guard guard(state_->mutex);
  for (auto& [key, member] : state_->members) {
    if (group.empty() || key.first == group) member->abort(reason);
  }
}

Statistics Engine::statistics() const {
  const std::lock_guard guard(state_->mutex);
  Statistics sum = state_->finished;
  for (const auto& [key, member] : state_->members) add(sum, member->statistics());
  return sum;
}

}  // namespace jaxina
