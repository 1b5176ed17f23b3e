#include "rdma_engine/switch/roce_switch.h"

namespace jaxina {
namespace {

constexpr Nanoseconds kLongestSleep = 1'000'000'000;

}  // namespace

RoceSwitch::RoceSwitch(const RoceSwitchConfig& config)
    : socket_(config.address, config.port, config.icrc, config.offload),
      connections_(socket_, config.mtu, config.first_psn),
      loss_(config.loss, config.loss_seed) {
  thread_ = std::thread([this] { run(); });
}

RoceSwitch::~RoceSwitch() {
  stopping_ = true;
  socket_.interrupt();
  thread_.join();
}

void RoceSwitch::run() {
  while (!stopping_) {
    const std::size_t packets = receive();
    while (callers_ > 0) std::this_thread::yield();
    if (packets == 0) socket_.wait(kLongestSleep);
  }
}

std::unique_lock<std::mutex> RoceSwitch::lock() {
  ++callers_;
  std::unique_lock held(mutex_);
  --callers_;
  return held;
}

std::size_t RoceSwitch::receive() {
  const std::lock_guard lock(mutex_);
  const std::size_t packets = socket_.receive([this](const roce::Packet& packet, const Address& from) {
    if (loss_.drops()) {
      ++packets_dropped_;
      return;
    }
    connections_.on_packet(packet, from, aggregator_);
  });
  // What cannot be sent is lost; the workers ask again.
  static_cast<void>(socket_.flush());
  return packets;
}

void RoceSwitch::add_job(const JobSpec& spec) {
  const auto held = lock();
  if (const Status status = aggregator_.add_job(spec); !status.ok()) throw Error(status);
  connections_.add_job(spec);
}

void RoceSwitch::remove_job(std::uint32_t job) {
  const auto held = lock();
  connections_.remove_job(job);
  aggregator_.remove_job(job);
}

void RoceSwitch::abort_job(std::uint32_t job, const Status& reason) {
  const auto held = lock();
  aggregator_.abort_job(job, reason, connections_);
  static_cast<void>(socket_.flush());
}

roce::ConnectionEnd RoceSwitch::connect(std::uint32_t job, std::uint16_t worker, const roce::ConnectionEnd& remote) {
  const auto held = lock();
  return connections_.connect(job, worker, remote);
}

RoceSwitchStatistics RoceSwitch::statistics(std::uint32_t job) {
  const auto held = lock();
  RoceSwitchStatistics statistics;
  if (aggregator_.has_job(job)) {
    statistics.job = *aggregator_.counters(job);
    statistics.rejects = *aggregator_.rejects(job);
  }
  statistics.roce = connections_.counters();
  statistics.packets = socket_.counters();
  statistics.packets_dropped = packets_dropped_;
  return statistics;
}

std::vector<std::uint32_t> RoceSwitch::missing(std::uint32_t job) {
  const auto held = lock();
  return aggregator_.missing(job);
}

std::optional<SlotContents> RoceSwitch::inspect(std::uint32_t job, std::uint32_t slot, std::uint32_t version) {
  const auto held = lock();
  return aggregator_.inspect(job, slot, version);
}

}  // namespace jaxina
