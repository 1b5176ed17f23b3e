#include "rdma_engine/switch/software_switch.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <set>
#include <utility>

#include "rdma_engine/switch/switch_thread.h"
#include "rdma_engine/transport/udp/socket_address.h"

namespace jaxina {
namespace {

constexpr std::chrono::seconds kCommandTimeout{5};
constexpr std::uint32_t kMaxThreads = 256;
// Memory the kernel takes for a packet that came alone, beyond its payload.
constexpr std::size_t kPacketOverhead = 768;

void check(const SwitchConfig& config) {
  const auto refuse = [](const std::string& why) { throw Error(ErrorCode::kInvalidArgument, why); };
  if (config.threads == 0 || config.threads > kMaxThreads) {
    refuse("a switch has between 1 and " + std::to_string(kMaxThreads) + " threads, not " +
           std::to_string(config.threads));
  }
  if (!config.ports.empty() && config.ports.size() != config.threads) {
    refuse("a switch has one port per thread: " + std::to_string(config.ports.size()) + " ports were given for " +
           std::to_string(config.threads) + " threads");
  }
  if (!(config.loss >= 0 && config.loss <= 1)) refuse("the share of packets to lose lies between 0 and 1");
}

template <typename Array>
void add_each(Array& sum, const Array& terms) {
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += terms[i];
}

void add(JobCounters& sum, const JobCounters& terms) {
  sum.updates += terms.updates;
  sum.results += terms.results;
  sum.duplicates += terms.duplicates;
  sum.packets_sent += terms.packets_sent;
  sum.bytes_received += terms.bytes_received;
  sum.bytes_sent += terms.bytes_sent;
}

SwitchStatistics statistics_of(SwitchThread& thread, const std::set<std::uint32_t>& jobs) {
  const Aggregator& aggregator = thread.aggregator();
  SwitchStatistics statistics;
  statistics.rejects = aggregator.rejects();
  for (const std::uint32_t id : jobs) {
    if (!aggregator.has_job(id)) continue;
    const SwitchStatistics::Job& job = statistics.jobs[id] = {*aggregator.counters(id), *aggregator.rejects(id)};
    for (std::size_t kind = 0; kind < job.rejects.size(); ++kind) statistics.rejects[kind] -= job.rejects[kind];
  }
  statistics.packets_received = thread.packets_received();
  statistics.packets_dropped = thread.packets_dropped();
  statistics.packets_unsent = thread.packets_unsent();
  return statistics;
}

}  // namespace

SoftwareSwitch::SoftwareSwitch(const SwitchConfig& config) {
  check(config);
  for (std::uint32_t i = 0; i < config.threads; ++i) {
    const std::uint16_t port = config.ports.empty() ? std::uint16_t{0} : config.ports[i];
    const Address local = udp::resolve(config.address, port, ErrorCode::kInvalidArgument);
    threads_.push_back(std::make_unique<SwitchThread>(local, config.loss, config.loss_seed + i));
    ports_.push_back(threads_.back()->port());
    receive_capacity_ = i == 0 ? threads_.back()->receive_capacity()
                               : std::min(receive_capacity_, threads_.back()->receive_capacity());
  }
}

SoftwareSwitch::~SoftwareSwitch() { stop(); }

void SoftwareSwitch::stop() {
  const std::lock_guard lock(mutex_);
  threads_.clear();
}

// Runs command(thread) -> value on every data thread and returns the values. What a command refers to it owns, because
// it may run after the wait was given up.
template <typename Command>
auto SoftwareSwitch::on_every_thread(Command command) {
  using Value = decltype(command(*threads_.front()));
  const std::lock_guard lock(mutex_);
  if (threads_.empty()) throw Error(ErrorCode::kShutDown, "the switch has been stopped");
  std::vector<std::future<Value>> futures;
  for (const auto& thread : threads_) {
    auto task = std::make_shared<std::packaged_task<Value(SwitchThread&)>>(command);
    futures.push_back(task->get_future());
    thread->post([task](SwitchThread& t) { (*task)(t); });
  }
  const auto deadline = std::chrono::steady_clock::now() + kCommandTimeout;
  std::vector<Value> values;
  for (std::future<Value>& future : futures) {
    if (future.wait_until(deadline) != std::future_status::ready) {
      throw Error(ErrorCode::kSystem, "a thread of the switch has not answered for " +
                                          std::to_string(kCommandTimeout.count()) + " s; is the machine overloaded?");
    }
    values.push_back(future.get());
  }
  return values;
}

void SoftwareSwitch::add_job(const JobSpec& spec) {
  for (const Status& status : on_every_thread([spec](SwitchThread& thread) { return thread.aggregator().add_job(spec); })) {
    if (!status.ok()) throw Error(status);
  }
  const std::lock_guard lock(mutex_);
  jobs_.insert(spec.job);
}

void SoftwareSwitch::remove_job(std::uint32_t job) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.erase(job);
  }
  on_every_thread([job](SwitchThread& thread) {
    thread.aggregator().remove_job(job);
    return true;
  });
}

void SoftwareSwitch::abort_job(std::uint32_t job, const Status& reason) {
  on_every_thread([job, reason](SwitchThread& thread) {
    thread.aggregator().abort_job(job, reason, thread.output());
    return true;
  });
}

SwitchStatistics SoftwareSwitch::statistics() {
  std::set<std::uint32_t> jobs;
  {
    const std::lock_guard lock(mutex_);
    jobs = jobs_;
  }
  SwitchStatistics sum;
  for (const SwitchStatistics& part :
       on_every_thread([jobs](SwitchThread& thread) { return statistics_of(thread, jobs); })) {
    for (const auto& [job, terms] : part.jobs) {
      add(sum.jobs[job].counters, terms.counters);
      add_each(sum.jobs[job].rejects, terms.rejects);
    }
    add_each(sum.rejects, part.rejects);
    sum.packets_received += part.packets_received;
    sum.packets_dropped += part.packets_dropped;
    sum.packets_unsent += part.packets_unsent;
  }
  return sum;
}

std::vector<std::uint32_t> SoftwareSwitch::missing(std::uint32_t job) {
  std::set<std::uint32_t> workers;
  for (const auto& part : on_every_thread([job](SwitchThread& thread) { return thread.aggregator().missing(job); })) {
    workers.insert(part.begin(), part.end());
  }
  return {workers.begin(), workers.end()};
}

std::uint32_t SoftwareSwitch::slots_that_fit(std::uint32_t workers, std::uint32_t block_size,
                                             std::uint32_t blocks_per_chunk) const {
  const std::size_t packet = wire::packet_size(std::size_t{block_size} * blocks_per_chunk, blocks_per_chunk);
  const std::size_t per_thread = receive_capacity_ / (std::max(workers, 1u) * (packet + kPacketOverhead));
  return static_cast<std::uint32_t>(std::clamp<std::size_t>(per_thread * ports_.size(), 1, 65536));
}

}  // namespace jaxina
