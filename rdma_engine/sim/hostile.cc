// The hostile sender. It has a job of its own at the aggregator and captures the packets of all others. It knows only
// its own secret; the others' secrets it has only as bytes of captured packets to replay.
#include <algorithm>

#include "rdma_engine/sim/simulation.h"

namespace jaxina::sim {
namespace {

constexpr std::size_t kCapturedPackets = 128;

wire::Kind draw_reply_kind(Random& random) {
  return static_cast<wire::Kind>(
      random.range(static_cast<int>(wire::Kind::kResult), static_cast<int>(wire::Kind::kAbort)));
}

}  // namespace

void Simulation::start_hostile() {
  hostile_left_ = plan_.hostile_packets;
  hostile_job_ = {.job = 1, .secret = random_.next(), .shape = simulated_shape(2, 2, 4, 2)};
  const std::uint16_t self[] = {hostile_host(), hostile_host()};
  hostile_counters_ = add_job(hostile_job_, self);
  events_.push(plan_.hostile_interval, EventKind::kHostile);
}

void Simulation::send_hostile() {
  if (hostile_left_-- == 0) return;
  ++outcome_.hostile;
  network_.inject(make_hostile(), now_ + random_.range(0, 100 * kMicrosecond));
  events_.push(now_ + random_.range(1, 2 * plan_.hostile_interval), EventKind::kHostile);
}

void Simulation::remember(const Packet& packet) {
  if (captured_.size() < kCapturedPackets) return captured_.push_back(packet);
  // Some captured packets stay for long, so that very old packets are replayed too.
  next_captured_ = (next_captured_ + 1 + random_.below(8)) % kCapturedPackets;
  captured_[next_captured_] = packet;
}

Packet Simulation::make_hostile() {
  switch (random_.below(6)) {
    case 0: return make_garbage();
    case 1: return make_forged(false);
    case 2: return plan_.features & kCombining ? make_forged_between_nodes() : make_forged(true);
    case 3: return make_own_job();
    default: return captured_.empty() ? make_garbage() : make_from_captured();
  }
}

Packet Simulation::make_garbage() {
  Packet packet{};  // zeroed, because the bytes sent must not depend on old memory
  packet.origin = {.maker = Origin::Maker::kHostile, .altered = true, .host = hostile_host()};
  packet.from = hostile_host();
  packet.to = kSwitch;
  packet.size = static_cast<std::uint16_t>(random_.below(kMaxPacket + 1));
  for (std::size_t i = 0; i < packet.size; ++i) packet.bytes[i] = static_cast<std::uint8_t>(random_.next());
  return packet;
}

// A valid packet of another's job, except for the secret.
Packet Simulation::make_forged(bool reply) {
  const JobRun& run = jobs_[random_.below(jobs_.size())];
  const auto victim = static_cast<std::uint16_t>(run.first_host + random_.below(run.plan->shape.workers()));
  Packet packet = make_garbage();
  wire::Header header{.kind = reply ? draw_reply_kind(random_) : wire::Kind::kUpdate,
                      .job = run.spec.job,
                      .secret = random_.one_in(2) ? random_.next() : hostile_job_.secret,
                      .worker = static_cast<std::uint16_t>(random_.below(run.plan->shape.workers() + 1)),
                      .slot = static_cast<std::uint16_t>(random_.below(run.plan->shape.slots() + 1)),
                      .epoch = static_cast<std::uint32_t>(random_.below(6)) - 2,
                      .fingerprint = static_cast<std::uint32_t>(random_.next()),
                      .words = static_cast<std::uint16_t>(random_.below(run.plan->shape.words_per_chunk() + 1)),
                      .exponents = static_cast<std::uint8_t>(random_.below(5)),
                      .code = static_cast<std::uint8_t>(random_.below(16))};
  packet.size = static_cast<std::uint16_t>(wire::packet_size(header.words, header.exponents));
  wire::seal(header, packet.bytes.data(), packet.size);
  packet.from = reply ? kSwitch : random_.one_in(2) ? victim : hostile_host();
  packet.to = reply ? victim : kSwitch;
  return packet;
}

// A packet as switches and servers send it to each other and to workers, valid except for the secret.
Packet Simulation::make_forged_between_nodes() {
  Packet packet = make_forged(random_.one_in(2));
  wire::Header header;
  static_cast<void>(wire::parse(packet.view(), header));  // it was just made
  const auto draw_node = [&] { return static_cast<std::uint16_t>(random_.below(network_.nodes())); };
  if (random_.one_in(2)) {
    header.kind = wire::Kind::kCombined;
    header.worker = static_cast<std::uint16_t>(wire::kFirstGroup + random_.below(4));
  }
  wire::seal(header, packet.bytes.data(), packet.size);
  packet.from = random_.one_in(4) ? kSwitch : random_.one_in(4) ? hostile_host() : draw_node();
  packet.to = random_.one_in(4) ? kSwitch : draw_node();
  return packet;
}

// A packet with the correct secret of the hostile sender's own job, and arbitrary numbers.
Packet Simulation::make_own_job() {
  Packet packet = make_garbage();
  packet.origin.altered = false;
  wire::Header header{.kind = wire::Kind::kUpdate,
                      .job = hostile_job_.job,
                      .secret = hostile_job_.secret,
                      .worker = static_cast<std::uint16_t>(random_.below(4)),
                      .slot = static_cast<std::uint16_t>(random_.one_in(4) ? random_.below(65536) : random_.below(3)),
                      .epoch = static_cast<std::uint32_t>(random_.below(8)) - 2,
                      .fingerprint = static_cast<std::uint32_t>(random_.below(2)),
                      .words = static_cast<std::uint16_t>(random_.below(12)),
                      .exponents = static_cast<std::uint8_t>(random_.below(4)),
                      .code = 0};
  packet.size = static_cast<std::uint16_t>(wire::packet_size(header.words, header.exponents));
  wire::seal(header, packet.bytes.data(), packet.size);
  if (random_.one_in(4)) packet.from = static_cast<std::uint16_t>(random_.below(hosts_.size()));
  return packet;
}

Packet Simulation::make_from_captured() {
  Packet packet = captured_[random_.below(captured_.size())];
  const auto draw_secret = [&](std::uint64_t old) {
    return random_.one_in(2) ? hostile_job_.secret : old ^ random_.next();
  };
  switch (random_.below(4)) {
    case 0: corrupt(packet, random_); break;
    case 1: {  // sealed again, for another job or with another secret
      wire::Header header;
      if (wire::parse(packet.view(), header) != wire::ParseResult::kOk) break;
      packet.origin = {.maker = Origin::Maker::kHostile, .altered = true, .host = hostile_host()};
      if (random_.one_in(2)) {
        header.secret = draw_secret(header.secret);
      } else {
        header.job = random_.one_in(2) ? hostile_job_.job : header.job + 1;
      }
      wire::seal(header, packet.bytes.data(), packet.size);
      break;
    }
    default:  // unchanged, from its original sender or from here
      break;
  }
  if (packet.to == kSwitch && random_.one_in(2)) packet.from = hostile_host();
  return packet;
}

}  // namespace jaxina::sim
