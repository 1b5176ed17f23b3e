#include "rdma_engine/switch/datagram_engine.h"

#include <cstring>
#include <optional>
#include <utility>

#include "rdma_engine/base/assert.h"
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
      receiver_.receive([this](std::span<std::uint8_t> packet, const Address& from) { on_packet(packet, from); });
  output_.flush();
  return packets;
}

bool DatagramEngine::add(std::unique_ptr<Job> job) {
  if (job->combined != nullptr) return combiner_.add(std::move(job->combined));
  const std::uint32_t id = job->aggregated->id();
  if (!aggregators_.add(std::move(job->aggregated))) return false;
  if (job->end != nullptr) ends_[id] = std::move(job->end);
  return true;
}

std::unique_ptr<DatagramEngine::Job> DatagramEngine::remove(std::uint32_t id) {
  auto job = std::make_unique<Job>();
  job->combined = combiner_.remove(id);
  job->aggregated = aggregators_.remove(id);
  if (auto node = ends_.extract(id); !node.empty()) job->end = std::move(node.mapped());
  return job;
}

void DatagramEngine::abort(std::uint32_t job, const Status& reason) {
  output_.begin(end_of(job));
  aggregators_.abort(job, reason, output_);
}

encryption::EncryptedEnd* DatagramEngine::end_of(std::uint32_t job) const {
  const auto found = ends_.find(job);
  return found == ends_.end() ? nullptr : found->second.get();
}

void DatagramEngine::on_packet(std::span<std::uint8_t> packet, const Address& from) {
  ++packets_received_;
  if (loss_.drops()) {
    ++packets_dropped_;
    return;
  }
  if (receiver_.take_overflow()) {
    aggregators_.on_overflow();
    combiner_.on_overflow();
  }
  if (encryption::has_envelope(packet)) return on_encrypted(packet, from);
  output_.begin(nullptr);
  const bool asks = combiner_.has_jobs() || !ends_.empty();
  const std::optional<std::uint32_t> job = asks ? wire::job_of(packet) : std::nullopt;
  if (job && end_of(*job) != nullptr) ++not_decrypted_[Counter::kNotEncrypted];
  else if (job && combiner_.find(*job) != nullptr) combiner_.on_packet(packet, from, turn_began_, output_);
  else aggregators_.on_packet(packet, from, output_);
}

// What does not decrypt gets no answer: nobody could tell it from a forged one.
void DatagramEngine::on_encrypted(std::span<std::uint8_t> packet, const Address& from) {
  encryption::EncryptedEnd* const end = end_of(encryption::read_envelope(packet).job);
  if (end == nullptr) {
    ++not_decrypted_[Counter::kUnknownJob];
    return;
  }
  const std::optional<std::span<std::uint8_t>> decrypted = end->decrypt(packet);
  if (!decrypted) {
    ++not_decrypted_[Counter::kNotAuthentic];
    return;
  }
  output_.begin(end);
  aggregators_.on_packet(*decrypted, from, output_, wire::Checksum::kOptional);
}

const Counters* DatagramEngine::counters_of(std::uint32_t job) const {
  if (const Aggregator* aggregator = aggregators_.find(job)) return &aggregator->counters();
  const CombinedJob* combined = combiner_.find(job);
  return combined != nullptr ? &combined->counters() : nullptr;
}

void DatagramEngine::count(SwitchCounters& counters) const {
  counters.without_job += aggregators_.without_job();
  counters.without_job += combiner_.without_job();
  counters.without_job += not_decrypted_;
  counters.entries += combiner_.entries();
  counters.entries_held += combiner_.entries_held(now());
  Counters& sockets = counters.sockets;
  sockets[Counter::kPacketsReceived] += packets_received_;
  sockets[Counter::kPacketsDropped] += packets_dropped_;
  sockets[Counter::kPacketsUnsent] += sender_.packets_unsent();
  sockets[Counter::kPacketsUnanswerable] += receiver_.unanswerable();
  sockets[Counter::kSocketOverflows] += receiver_.overflows();
}

// Notices lie on the stack, where another one may have been before. So the place alone does not say that it is the
// same.
bool DatagramEngine::Output::is_copied(std::span<const std::uint8_t> packet) const {
  return packet.data() == source_.data() && packet.size() == source_.size() &&
         std::memcmp(packet.data(), header_.data(), header_.size()) == 0;
}

void DatagramEngine::Output::send(const Address& to, std::span<const std::uint8_t> packet) {
  JAXINA_ASSERT(packet.size() >= header_.size());
  if (!is_copied(packet)) {
    if (end_ == nullptr) {
      std::uint8_t* const room = reserve(packet.size());
      std::memcpy(room, packet.data(), packet.size());
      copy_ = {room, packet.size()};
    } else {
      std::uint8_t* const room = reserve(packet.size() + encryption::kOverhead);
      copy_ = {room, end_->encrypt(packet, room)};
    }
    source_ = packet;
    std::memcpy(header_.data(), packet.data(), header_.size());
  }
  if (copy_.empty()) return;  // the job's keys are used up
  // A refused sender may not exist. All other receivers have proved that they know a job's secret.
  sender_.add(to, copy_, is_refusal(packet) ? net::Priority::kLow : net::Priority::kNormal);
}

std::uint8_t* DatagramEngine::Output::reserve(std::size_t size) {
  std::uint8_t* room = sender_.reserve(size);
  if (room == nullptr) {
    flush();
    room = sender_.reserve(size);
  }
  return room;
}

void DatagramEngine::Output::flush() {
  // Packets that cannot be sent are lost; the sender counts them, and the workers ask again.
  static_cast<void>(sender_.flush());
  source_ = {};
}

}  // namespace jaxina
