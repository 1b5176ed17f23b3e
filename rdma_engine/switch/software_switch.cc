#include "rdma_engine/switch/software_switch.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "rdma_engine/base/narrow.h"
#include "rdma_engine/net/socket_address.h"

namespace jaxina {
namespace {

constexpr std::uint32_t kMaxThreads = 256;
// Memory that the kernel takes for a packet that arrived alone, in addition to its payload.
constexpr std::size_t kPacketOverhead = 768;

constexpr double kFastestPort = 1e6;  // megabits per second
// Bytes that a link carries in addition to a packet: the headers of Ethernet, IPv4 and UDP.
constexpr std::size_t kHeaders = 14 + 20 + 8;

// Longer than what bridges the time that threads wait for a processor, which makes bursts of what they send. It is
// shorter than the queue of a small switch (5 ms).
constexpr Nanoseconds kThreshold = 4'000'000;

// A thread sends its share of what leaves a port.
PhantomQueueOptions queues_of(const SwitchConfig& config) {
  return {.bytes_per_second = config.port_rate * 1e6 / 8 / config.threads,
          .bytes_per_packet = kHeaders,
          .threshold = kThreshold};
}

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
  if (config.entries > kMaxPoolBytes / kEntryBytes) {
    refuse("a switch has at most " + std::to_string(kMaxPoolBytes / kEntryBytes) + " entries for combined jobs, not " +
           std::to_string(config.entries));
  }
  if (!(config.share_sent_on >= 0 && config.share_sent_on <= 1)) {
    refuse("the share of passes that are not combined lies between 0 and 1");
  }
  if (!(config.port_rate >= 0 && config.port_rate <= kFastestPort)) {
    refuse("the rate of a port lies between 0 (not known) and " + std::to_string(std::lround(kFastestPort)) +
           " megabits per second");
  }
  if (!(config.loss >= 0 && config.loss <= 1)) refuse("the share of packets to lose lies between 0 and 1");
}

std::unique_ptr<encryption::EncryptedEnd> encrypted_end(const JobSpec& spec, const Shard& shard) {
  return std::make_unique<encryption::EncryptedEnd>(*spec.key, spec.job, encryption::Role::kAggregator,
                                                    narrow<std::uint16_t>(shard.index), spec.shape.workers());
}

}  // namespace

SoftwareSwitch::SoftwareSwitch(const SwitchConfig& config) {
  check(config);
  std::vector<std::unique_ptr<DatagramEngine>> engines;
  const CombinerOptions combining{
      .table = {.entries = prime_entries((config.entries + config.threads - 1) / config.threads),
                .packet_bytes = kEntryBytes},
      .share_sent_on = static_cast<std::uint32_t>(std::lround(config.share_sent_on * 65536)),
      .queues = queues_of(config),
      .port_of = net::host_of};
  for (std::uint32_t i = 0; i < config.threads; ++i) {
    const std::uint16_t port = config.ports.empty() ? std::uint16_t{0} : config.ports[i];
    const Address local = net::resolve(config.address, port, ErrorCode::kInvalidArgument);
    engines.push_back(std::make_unique<DatagramEngine>(local, config.loss, config.loss_seed + i, combining));
    const net::UdpSocket& socket = engines.back()->socket();
    ports_.push_back(net::port_of(socket.local()));
    receive_granted_ = i == 0 ? socket.receive_capacity() : std::min(receive_granted_, socket.receive_capacity());
    receive_requested_ = socket.receive_requested();
  }
  lanes_ = std::make_unique<Lanes<DatagramEngine>>(std::move(engines));
}

void SoftwareSwitch::combine_job(const CombinedJobSpec& spec) {
  if (spec.shape.packet_size() > kEntryBytes) {
    throw Error(ErrorCode::kJobRejected, "the job's packets have " + std::to_string(spec.shape.packet_size()) +
                                             " bytes, and this switch combines packets of at most " +
                                             std::to_string(kEntryBytes) +
                                             ": lower JAXINA_BLOCK_SIZE or JAXINA_BLOCKS_PER_CHUNK");
  }
  lanes_->add_job(spec.job, ports_.size() * CombinedJob::bytes_for(spec), [&](const Shard&) {
    auto job = std::make_unique<DatagramEngine::Job>();
    job->combined = std::make_unique<CombinedJob>(spec);
    return job;
  });
}

void SoftwareSwitch::add_job(const JobSpec& spec, const Shard& part, const CombiningSwitches& switches) {
  if (part.index >= part.of) {
    throw Error(ErrorCode::kInvalidArgument, "a job has no part " + std::to_string(part.index) + " of " +
                                                 std::to_string(part.of) + ": parts count from 0");
  }
  if (part.of > kMaxSlots) {  // times the number of threads, it must not overflow
    throw Error(ErrorCode::kInvalidArgument, "a job has at most " + std::to_string(kMaxSlots) + " parts, not " +
                                                 std::to_string(part.of) + ", because it has no more slots");
  }
  const auto threads = narrow<std::uint32_t>(ports_.size());
  // The part of one thread, of all threads of all switches of the job.
  const auto of_thread = [&](std::uint32_t thread) {
    return Shard{.index = thread * part.of + part.index, .of = threads * part.of};
  };
  std::size_t bytes = 0;
  for (std::uint32_t i = 0; i < threads; ++i) bytes += DatagramJob::bytes_for(spec, of_thread(i), switches);
  if (spec.key) bytes += threads * encryption::EncryptedEnd::bytes_for(spec.shape.workers());
  lanes_->add_job(spec.job, bytes, [&](const Shard& thread) {
    const Shard shard = of_thread(thread.index);
    auto job = std::make_unique<DatagramEngine::Job>();
    job->aggregated = std::make_unique<DatagramJob>(spec, shard, switches);
    if (spec.key) job->end = encrypted_end(spec, shard);
    return job;
  });
}

std::uint32_t SoftwareSwitch::slots_that_fit(const JobShape& shape) const {
  const std::size_t per_thread = receive_granted_ / (shape.workers() * (shape.packet_size() + kPacketOverhead));
  return narrow<std::uint32_t>(std::clamp<std::size_t>(per_thread * ports_.size(), 1, shape.slots()));
}

}  // namespace jaxina
