#include "rdma_engine/switch/datagram_engine.h"

#include <cstring>
#include <optional>

#include "rdma_engine/base/clock.h"

namespace jaxina {
namespace {

bool is_refusal(std::span<const std::uint8_t> packet) {
  return packet[offsetof(wire::HeaderBytes, kind)] == static_cast<std::uint8_t>(wire::Kind::kRefused);
}

}  // namespace

DatagramEngine::DatagramEngine(const Address& local, double loss, std::uint64_t loss_seed,
                               const CombinerOptions& combining)
    : socket_(local, {.send_buffer = net::kSwitchSendBuffer, .answers = true}),
      receiver_(socket_),
      sender_(socket_, net::WhenFull::kDrop),
      loss_(loss, loss_seed),
      combiner_(combining),
      output_(sender_) {}

std::size_t DatagramEngine::turn() {
  turn_began_ = now();
  const std::size_t packets =
      receiver_.receive([this](std::span<const std::uint8_t> packet, const Address& from) { on_packet(packet, from); });
  output_.flush();
  return packets;
}

void DatagramEngine::on_packet(std::span<const std::uint8_t> packet, const Address& from) {
  ++packets_received_;
  if (loss_.drops()) {
    ++packets_dropped_;
    return;
  }
  output_.forget_copy();
  if (receiver_.take_overflow()) {
    aggregators_.on_overflow();
    combiner_.on_overflow();
  }
  const std::optional<std::uint32_t> job = combiner_.has_jobs() ? wire::job_of(packet) : std::nullopt;
  if (job && combiner_.find(*job) != nullptr) combiner_.on_packet(packet, from, turn_began_, output_);
  else aggregators_.on_packet(packet, from, output_);
}

const Counters* DatagramEngine::counters_of(std::uint32_t job) const {
  if (const Aggregator* aggregator = aggregators_.find(job)) return &aggregator->counters();
  const CombinedJob* combined = combiner_.find(job);
  return combined != nullptr ? &combined->counters() : nullptr;
}

void DatagramEngine::count(SwitchCounters& counters) const {
  counters.without_job += aggregators_.without_job();
  counters.without_job += combiner_.without_job();
  counters.entries += combiner_.entries();
  counters.entries_held += combiner_.entries_held(now());
  Counters& sockets = counters.sockets;
  sockets[Counter::kPacketsReceived] += packets_received_;
  sockets[Counter::kPacketsDropped] += packets_dropped_;
  sockets[Counter::kPacketsUnsent] += sender_.packets_unsent();
  sockets[Counter::kPacketsUnanswerable] += receiver_.unanswerable();
  sockets[Counter::kSocketOverflows] += receiver_.overflows();
}

void DatagramEngine::Output::send(const Address& to, std::span<const std::uint8_t> packet) {
  if (packet.data() != source_.data() || packet.size() != source_.size()) {
    std::uint8_t* room = sender_.reserve(packet.size());
    if (room == nullptr) {
      flush();
      room = sender_.reserve(packet.size());
    }
    std::memcpy(room, packet.data(), packet.size());
    source_ = packet;
    copy_ = {room, packet.size()};
  }
  // A refused sender may not exist. All other receivers have proved that they know a job's secret.
  sender_.add(to, copy_, is_refusal(packet) ? net::Priority::kLow : net::Priority::kNormal);
}

void DatagramEngine::Output::flush() {
  // Packets that cannot be sent are lost; the sender counts them, and the workers ask again.
  static_cast<void>(sender_.flush());
  forget_copy();
}

}  // namespace jaxina
