#include "rdma_engine/engine/node.h"

#include <algorithm>
#include <chrono>

#include "rdma_engine/aggregator/mismatch.h"
#include "rdma_engine/base/clock.h"
#include "rdma_engine/engine/result_memory.h"
#include "rdma_engine/numerics/stochastic_rounding.h"
#include "rdma_engine/transport/start_thread.h"

namespace jaxina {
namespace {

// How long progress() may wait before the thread checks deadlines and aborts again.
constexpr Nanoseconds kTick = 50'000'000;
// How often an idle thread checks whether a device is late for a round.
constexpr auto kIdleTick = std::chrono::milliseconds(250);
// The most time that counts as waiting between two such checks. In longer gaps this process was stopped, or starved.
constexpr Nanoseconds kLongestWatch = 500'000'000;
// Up to kInlineElements, over all devices, the last device to submit sums on its own thread, because waking another
// thread would take longer. From kTogetherElements on, several threads share the work.
constexpr std::size_t kInlineElements = 64 * 1024;
constexpr std::size_t kTogetherElements = 256 * 1024;

constexpr char kStopped[] = "jaxina was shut down while this sum was pending";

std::size_t bytes_of(const Tensor& tensor) { return tensor.count * numerics::element_codec(tensor.type).size; }

std::size_t bytes_of(const Collective& collective) {
  std::size_t bytes = 0;
  for (const Tensor& tensor : collective.tensors) bytes += bytes_of(tensor);
  return bytes;
}

std::size_t elements_of(const Collective& collective) {
  std::size_t elements = 0;
  for (const Tensor& tensor : collective.tensors) elements += tensor.count;
  return elements;
}

void prepare_results(std::vector<Collective>& contributions) {
  for (Collective& collective : contributions) {
    if (collective.device != nullptr) continue;
    const bool large = bytes_of(collective) >= kStreamedBytes;
    for (Tensor& tensor : collective.tensors) {
      if (tensor.in != tensor.out) advise_huge_pages(tensor.out, bytes_of(tensor));
      tensor.streams = large && is_resident(tensor.out, bytes_of(tensor));
    }
  }
}

// Joins the group's aggregator. Throws Error.
std::unique_ptr<Endpoint> make_endpoint(const GroupConfig& config) {
  return std::visit([&](const auto& transport) { return make_endpoint(config.member, transport); }, config.transport);
}

// Does something that may throw, and returns how it went.
template <typename Action>
Status attempt(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error.status();
  } catch (const std::exception& error) {
    return {ErrorCode::kSystem, error.what()};
  }
  return {};
}

std::string seconds(double s) { return std::to_string(static_cast<long>(s)) + " s"; }

}  // namespace

Node::Node(Group group, Engine::Connector connector, Engine::Ended ended, std::unique_ptr<Recorder> recorder)
    : group_(std::move(group)),
      connector_(std::move(connector)),
      ended_(std::move(ended)),
      recorder_(std::move(recorder)),
      watched_(kLongestWatch) {
  try {
    thread_ = start_thread([this] { run(); });
  } catch (const Error& error) {
    failed_ = error.status();
  }
}

void Node::close() {
  {
    std::unique_lock lock(mutex_);
    stopping_ = true;
    if (endpoint_) endpoint_->wake();
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !busy_; });
  std::map<std::uint32_t, Device> devices;
  devices.swap(devices_);
  local_.clear();
  lock.unlock();
  devices.clear();  // runs the queued completions; without the lock, because they may submit
}

void Node::submit(std::uint32_t index, Collective collective, Engine::Completion done) {
  const std::uint32_t print = fingerprint(collective);
  const Nanoseconds begun = now();
  std::unique_lock lock(mutex_);
  Status failed = failed_;
  auto known = devices_.find(index);
  if (failed.ok() && known == devices_.end()) {
    try {
      known = devices_.try_emplace(index).first;
    } catch (const Error& error) {
      failed = broken_ = error.status();
      if (endpoint_) endpoint_->wake();
      changed_.notify_all();
    }
  }
  if (failed.ok()) {
    Device& device = known->second;
    device.requests.push_back({std::move(collective), std::move(done), print, begun, watched_.look(begun)});
    if (!complete() || sum_inline(lock, device)) return;
    if (endpoint_) endpoint_->wake();
    changed_.notify_all();
    return;
  }
  if (known != devices_.end() && !known->second.completions.has_called_all()) {
    return known->second.completions.post(std::move(done), std::move(failed));
  }
  lock.unlock();
  done(std::move(failed));
}

bool Node::sum_inline(std::unique_lock<std::mutex>& lock, Device& submitter) {
  // If this device has two requests, the older one belongs to another call. Its completion must not run within this
  // call.
  if (!local_sum_ || busy_ || stopping_ || submitter.requests.size() > 1) return false;
  if (!abort_reason_.ok() || !broken_.ok() || !disagreement().ok()) return false;
  if (submitter.requests.front().collective.device != nullptr) return false;
  if (elements_of(submitter.requests.front().collective) * local_.size() > kInlineElements) return false;
  const auto mine = static_cast<std::size_t>(std::find(local_.begin(), local_.end(), &submitter) - local_.begin());
  Round round = take();
  busy_ = true;
  lock.unlock();
  const Status status = attempt([&] { local_sum_->run(std::move(round.contributions)); });
  if (status.ok()) record(round);
  for (std::size_t i = 0; i < local_.size(); ++i) {
    if (i != mine) local_[i]->completions.post(std::move(round.done[i]), status);
  }
  // Completions of this device that are queued come first.
  if (submitter.completions.has_called_all()) {
    round.done[mine](status);
  } else {
    submitter.completions.post(std::move(round.done[mine]), status);
  }
  lock.lock();
  busy_ = false;
  if (broken_.ok()) broken_ = status;
  if (!failed_.ok()) fail_requests();
  if (complete() || stopping_ || !broken_.ok()) changed_.notify_all();
  return true;
}

void Node::abort(Status reason) {
  {
    const std::lock_guard guard(mutex_);
    if (abort_reason_.ok()) abort_reason_ = std::move(reason);
    if (endpoint_) endpoint_->wake();
  }
  changed_.notify_all();
}

Counters Node::statistics() const {
  const std::lock_guard guard(mutex_);
  return statistics_;
}

void Node::run() {
  if (!connect()) return;
  while (step()) {
  }
}

bool Node::connect() {
  const Status status = attempt([this] {
    GroupConfig config = connector_(group_);
    const JobShape shape = config.member.shape;
    {
      // Do this before joining the other processes, because starting the devices' threads may fail.
      const std::lock_guard guard(mutex_);
      config_ = std::move(config);
      for (const std::uint32_t index : config_->local) local_.push_back(&devices_[index]);
      if (devices_.size() != local_.size()) {
        throw Error(ErrorCode::kInvalidArgument, "a device of another process was submitted here");
      }
    }
    config_->member.gives_up = [this] {
      const std::lock_guard guard(mutex_);
      return stopping_ ? Status(ErrorCode::kShutDown, kStopped) : abort_reason_;
    };
    std::unique_ptr<Endpoint> endpoint;
    if (shape.workers() > 1) endpoint = make_endpoint(*config_);
    if (endpoint) endpoint->record(recorder_.get());
    const std::lock_guard guard(mutex_);
    endpoint_ = std::move(endpoint);
    if (!endpoint_) local_sum_ = std::make_unique<LocalSum>(shape);
  });
  if (!status.ok()) fail(status);
  return status.ok();
}

bool Node::step() {
  std::deque<Round> taken;
  {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kIdleTick, [this] {
      return stopping_ || !abort_reason_.ok() || !broken_.ok() || !in_flight_.empty() || (complete() && !busy_);
    });
    if (stopping_) {
      lock.unlock();
      return fail({ErrorCode::kShutDown, kStopped}), false;
    }
    if (const Status ended = abort_reason_; !ended.ok()) {
      lock.unlock();
      // Tell the others the reason first. Otherwise they might only notice that this worker left.
      if (endpoint_) endpoint_->end(ended);
      return fail(ended), false;
    }
    Status wrong = broken_.ok() ? late_device(watched_.look(now())) : broken_;
    while (wrong.ok() && complete() && !busy_) {
      wrong = disagreement();
      if (!wrong.ok()) break;
      taken.push_back(take());
      busy_ = local_sum_ != nullptr;  // one local round at a time
    }
    if (!wrong.ok()) {
      lock.unlock();
      for (Round& round : taken) in_flight_.push_back(std::move(round));
      return end_for_all(wrong), false;
    }
  }
  Status broken;
  for (Round& round : taken) {
    if (broken.ok()) broken = local_sum_ ? sum_locally(round) : send(round);
    if (!broken.ok() || !local_sum_) in_flight_.push_back(std::move(round));
  }
  if (!broken.ok()) return end_for_all(broken), false;
  return in_flight_.empty() || advance();
}

Status Node::sum_locally(Round& round) {
  prepare_results(round.contributions);
  const Collective& first = round.contributions.front();
  const Status status = attempt([&] {
    if (first.device != nullptr || elements_of(first) * local_.size() < kTogetherElements) {
      local_sum_->run(std::move(round.contributions), [&] { return gives_up(round); });
    } else {
      local_sum_->run_together(round.contributions);
    }
  });
  if (status.ok()) finish(round);
  const std::lock_guard guard(mutex_);
  busy_ = false;
  return status;
}

Status Node::gives_up(const Round& round) {
  if (Status ended = config_->member.gives_up(); !ended.ok()) return ended;
  const std::lock_guard guard(mutex_);
  const auto timeout = static_cast<Nanoseconds>(config_->collective_timeout_s * 1e9);
  if (watched_.look(now()) < round.waits_since + timeout) return {};
  return {ErrorCode::kTimeout, "the devices of this process have not summed within " +
                                   seconds(config_->collective_timeout_s) + ". Look at them, or raise JAXINA_TIMEOUT"};
}

Status Node::send(Round& round) {
  prepare_results(round.contributions);
  return attempt([&] { endpoint_->worker().submit_contributions(std::move(round.contributions)); });
}

bool Node::advance() {
  const Status status = endpoint_->progress(kTick);
  Nanoseconds watched;
  {
    const std::lock_guard guard(mutex_);
    watched = watched_.look(now());
    Counters counters = endpoint_->statistics();
    for (const Counter own : {Counter::kCollectives, Counter::kElements}) counters[own] = statistics_[own];
    statistics_ = counters;
  }
  for (std::size_t done = endpoint_->worker().pop_completed(); done > 0; --done) {
    finish(in_flight_.front());
    in_flight_.pop_front();
  }
  if (!status.ok()) return fail(status), false;
  if (const Status broken = endpoint_->worker().device_failure(); !broken.ok()) return end_for_all(broken), false;
  const auto timeout = static_cast<Nanoseconds>(config_->collective_timeout_s * 1e9);
  if (in_flight_.empty() || watched < in_flight_.front().waits_since + timeout) return true;
  return end_for_all(overdue()), false;
}

void Node::finish(Round& round) {
  record(round);
  for (std::size_t i = 0; i < local_.size(); ++i) local_[i]->completions.post(std::move(round.done[i]), {});
}

void Node::record(const Round& round) const {
  if (!recorder_) return;
  recorder_->add({.kind = TraceEvent::Kind::kCollective,
                  .collective = round.number,
                  .elements = round.elements,
                  .time = round.begun,
                  .end = now()});
}

void Node::end_for_all(const Status& reason) {
  const bool others = endpoint_ != nullptr;
  if (others) endpoint_->end(reason);
  fail(reason);
  if (others) ended_(group_, reason);  // last, because it may take long over a broken link
}

void Node::fail(Status reason) {
  std::unique_ptr<Endpoint> endpoint;
  {
    const std::lock_guard guard(mutex_);
    endpoint = std::move(endpoint_);
  }
  endpoint.reset();  // after this no buffer is touched any more
  const std::lock_guard guard(mutex_);
  failed_ = std::move(reason);  // collectives submitted from now on complete after those that are failed here
  for (Round& round : in_flight_) {
    for (std::size_t i = 0; i < local_.size(); ++i) local_[i]->completions.post(std::move(round.done[i]), failed_);
  }
  in_flight_.clear();
  if (!busy_) fail_requests();  // otherwise the summing thread calls it, after it has posted its completions
}

void Node::fail_requests() {
  for (auto& [index, device] : devices_) {
    for (Request& request : device.requests) device.completions.post(std::move(request.done), failed_);
    device.requests.clear();
  }
}

bool Node::complete() const {
  return !local_.empty() &&
         std::all_of(local_.begin(), local_.end(), [](const Device* device) { return !device->requests.empty(); });
}

Node::Round Node::take() {
  const Request& first = local_.front()->requests.front();
  Round round{{}, {}, first.begun, first.waits_since, rounds_++, 0};
  for (Device* device : local_) {
    Request& request = device->requests.front();
    ++statistics_[Counter::kCollectives];
    round.elements += elements_of(request.collective);
    round.begun = std::min(round.begun, request.begun);
    round.waits_since = std::min(round.waits_since, request.waits_since);
    numerics::Rounding& rounding = request.collective.rounding;
    rounding.seed = numerics::random64(rounding.seed, round.number);
    round.contributions.push_back(std::move(request.collective));
    round.done.push_back(std::move(request.done));
    device->requests.pop_front();
  }
  statistics_[Counter::kElements] += round.elements;
  return round;
}

Status Node::disagreement() const {
  for (std::size_t i = 1; i < local_.size(); ++i) {
    const Request &one = local_[0]->requests.front(), &other = local_[i]->requests.front();
    const bool alike = (one.collective.device == nullptr) == (other.collective.device == nullptr);
    if (alike && one.fingerprint == other.fingerprint) continue;
    return {ErrorCode::kMismatch, "devices " + std::to_string(group_[config_->local[0]]) + " and " +
                                      std::to_string(group_[config_->local[i]]) +
                                      " sum different things in the same call" + std::string(kRunTheSame)};
  }
  return {};
}

Status Node::late_device(Nanoseconds watched) const {
  const auto timeout = static_cast<Nanoseconds>(config_->collective_timeout_s * 1e9);
  std::string absent;
  bool overdue = false;
  for (std::size_t i = 0; i < local_.size(); ++i) {
    const std::deque<Request>& requests = local_[i]->requests;
    if (requests.empty()) absent += " " + std::to_string(group_[config_->local[i]]);
    else overdue = overdue || watched > requests.front().waits_since + timeout;
  }
  if (!overdue || absent.empty()) return {};
  return {ErrorCode::kTimeout, "devices of this process waited " + seconds(config_->collective_timeout_s) +
                                   " for others of its devices, which did not reach this sum:" + absent +
                                   ". Look at their programs, or raise JAXINA_TIMEOUT"};
}

Status Node::overdue() const {
  const Worker::Progress progress = endpoint_->worker().progress();
  std::string missing;
  for (const std::uint32_t worker : endpoint_->missing()) missing += " " + std::to_string(worker);
  return {ErrorCode::kTimeout, "worker " + std::to_string(config_->member.worker) + " waited " +
                                   seconds(config_->collective_timeout_s) + " with " + std::to_string(progress.done) +
                                   " of " + std::to_string(progress.total) +
                                   " chunks done; missing workers:" + (missing.empty() ? " unknown" : missing) +
                                   ". Look at those processes, or raise JAXINA_TIMEOUT"};
}

}  // namespace jaxina
