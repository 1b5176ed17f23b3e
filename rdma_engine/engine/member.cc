#include "rdma_engine/engine/member.h"

#include <algorithm>
#include <chrono>

#include "rdma_engine/engine/huge_pages.h"

namespace jaxina {
namespace {

// How long progress() may wait before the thread looks for deadlines and aborts again.
constexpr Nanoseconds kTick = 50'000'000;

Nanoseconds now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::unique_ptr<Endpoint> make_endpoint(const EndpointConfig& config) {
  if (config.devices > numerics::kMaxWorkers) {
    throw Error(ErrorCode::kTooManyWorkers, "a group has at most " + std::to_string(numerics::kMaxWorkers) +
                                                " devices, not " + std::to_string(config.devices));
  }
  if (config.block_size < numerics::kMinBlockSize || config.block_size > numerics::kMaxBlockSize) {
    throw Error(ErrorCode::kInvalidArgument, "the block size is between " + std::to_string(numerics::kMinBlockSize) +
                                                 " and " + std::to_string(numerics::kMaxBlockSize) + ", not " +
                                                 std::to_string(config.block_size));
  }
  if (config.transport == "embedded") return make_embedded_endpoint(config);
  if (config.transport == "udp") return make_udp_endpoint(config);
  throw Error(ErrorCode::kInvalidArgument, "unknown aggregator '" + config.transport + "': choose embedded or udp");
}

}  // namespace

CompletionThread::CompletionThread() : thread_([this] { run(); }) {}

CompletionThread::~CompletionThread() {
  {
    const std::lock_guard guard(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void CompletionThread::post(Engine::Completion done, Status status) {
  {
    const std::lock_guard guard(mutex_);
    queue_.emplace_back(std::move(done), std::move(status));
  }
  changed_.notify_one();
}

void CompletionThread::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    auto [done, status] = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    done(std::move(status));
    done = nullptr;  // what it holds goes before the lock is taken
    lock.lock();
  }
}

GroupMember::GroupMember(Group group, std::uint32_t index, Engine::Connector connector)
    : group_(std::move(group)), index_(index), connector_(std::move(connector)), thread_([this] { run(); }) {}

GroupMember::~GroupMember() {
  {
    const std::lock_guard guard(mutex_);
    stopping_ = true;
    if (endpoint_) endpoint_->wake();
  }
  changed_.notify_one();
  thread_.join();
}

void GroupMember::submit(Collective collective, Engine::Completion done) {
  {
    const std::lock_guard guard(mutex_);
    if (failed_.ok()) {
      requests_.push_back({std::move(collective), std::move(done)});
      if (endpoint_) endpoint_->wake();
      changed_.notify_one();
      return;
    }
  }
  completions_.post(std::move(done), failed_);  // written once, before it could be seen above
}

void GroupMember::abort(Status reason) {
  {
    const std::lock_guard guard(mutex_);
    if (abort_reason_.ok()) abort_reason_ = std::move(reason);
    if (endpoint_) endpoint_->wake();
  }
  changed_.notify_one();
}

Statistics GroupMember::statistics() const {
  const std::lock_guard guard(mutex_);
  return statistics_;
}

void GroupMember::run() {
  while (take_requests()) advance();
  {
    const std::lock_guard guard(mutex_);
    if (!failed_.ok()) return;
  }
  fail({ErrorCode::kShutDown, "jaxina was shut down while this sum was pending"});
}

bool GroupMember::take_requests() {
  std::deque<Request> taken;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] {
      return stopping_ || !abort_reason_.ok() || !requests_.empty() || !pending_.empty();
    });
    if (stopping_) return false;
    if (!abort_reason_.ok()) {
      lock.unlock();
      fail(abort_reason_);
      return false;
    }
    taken.swap(requests_);
  }
  if (taken.empty()) return true;
  for (Request& request : taken) {
    pending_.push_back({std::move(request.done), 0});
  }
  if (!endpoint_ && !connect()) return false;
  const Nanoseconds deadline = now() + static_cast<Nanoseconds>(config_.collective_timeout_s * 1e9);
  for (std::size_t i = 0; i < taken.size(); ++i) {
    pending_[pending_.size() - taken.size() + i].deadline = deadline;
    count(taken[i].collective);
    for (const Tensor& tensor : taken[i].collective.tensors) {
      if (tensor.in != tensor.out) advise_huge_pages(tensor.out, tensor.count * numerics::element_codec(tensor.type).size);
    }
    endpoint_->worker().submit(std::move(taken[i].collective));
  }
  return true;
}

bool GroupMember::connect() {
  try {
    config_ = connector_(group_, index_);
    std::unique_ptr<Endpoint> endpoint = make_endpoint(config_);
    const std::lock_guard guard(mutex_);
    endpoint_ = std::move(endpoint);
    return true;
  } catch (const Error& error) {
    fail(error.status());
  } catch (const std::exception& error) {
    fail({ErrorCode::kSystem, error.what()});
  }
  return false;
}

void GroupMember::advance() {
  const Status status = endpoint_->progress(kTick);
  Worker& worker = endpoint_->worker();
  for (std::size_t done = worker.pop_completed(); done > 0; --done) {
    completions_.post(std::move(pending_.front().done), {});
    pending_.pop_front();
  }
  {
    const std::lock_guard guard(mutex_);
    const std::uint64_t collectives = statistics_.collectives, elements = statistics_.elements;
    statistics_ = endpoint_->statistics();
    statistics_.collectives = collectives;
    statistics_.elements = elements;
  }
  if (!status.ok()) return fail(status);
  if (!pending_.empty() && now() > pending_.front().deadline) {
    const Status late = overdue();
    endpoint_->end(late);
    fail(late);
  }
}

Status GroupMember::overdue() const {
  const Worker::Progress progress = endpoint_->worker().progress();
  std::string missing;
  for (const std::uint32_t worker : endpoint_->missing()) missing += " " + std::to_string(worker);
  return {ErrorCode::kTimeout, "worker " + std::to_string(index_) + " waited " +
                                   std::to_string(static_cast<long>(config_.collective_timeout_s)) + " s with " +
                                   std::to_string(progress.done) + " of " + std::to_string(progress.total) +
                                   " chunks done; missing workers:" + (missing.empty() ? " unknown" : missing) +
                                   ". Look at those processes, or raise JAXINA_TIMEOUT"};
}

void GroupMember::fail(Status reason) {
  std::deque<Request> requests;
  std::unique_ptr<Endpoint> endpoint;
  {
    const std::lock_guard guard(mutex_);
    if (failed_.ok()) failed_ = reason;
    stopping_ = true;
    requests.swap(requests_);
    endpoint = std::move(endpoint_);
  }
  endpoint.reset();  // no buffer is touched after this
  for (Pending& pending : pending_) completions_.post(std::move(pending.done), reason);
  pending_.clear();
  for (Request& request : requests) completions_.post(std::move(request.done), reason);
}

void GroupMember::count(const Collective& collective) {
  const std::lock_guard guard(mutex_);
  ++statistics_.collectives;
  for (const Tensor& tensor : collective.tensors) statistics_.elements += tensor.count;
}

}  // namespace jaxina
