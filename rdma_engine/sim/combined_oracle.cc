// The oracle of combining switches: the sum that a switch sends is the exact sum of what its workers sent for that
// pass.
#include <algorithm>
#include <cstddef>
#include <vector>

#include "rdma_engine/sim/simulation.h"

namespace jaxina::sim {
namespace {

std::uint32_t word_at(const std::uint8_t* bytes) {
  return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 | std::uint32_t{bytes[2]} << 8 | bytes[3];
}

}  // namespace

void Simulation::remember_contribution(const Packet& packet) {
  contributions_.insert_or_assign({packet.origin.host, packet.origin.slot, packet.origin.epoch}, packet);
}

void Simulation::check_combined(const Packet& packet, const WorkerSet& workers) {
  wire::Header header;
  require(wire::parse(packet.view(), header) == wire::ParseResult::kOk, "a switch sends a sum that cannot be parsed");
  const auto run = std::find_if(jobs_.begin(), jobs_.end(), [&](const JobRun& candidate) {
    return candidate.spec.job == header.job && candidate.spec.secret == header.secret;
  });
  if (run == jobs_.end()) return;  // the hostile sender's own job, or one that has ended
  std::vector<std::uint32_t> words(header.words);
  std::vector<std::uint8_t> exponents(header.exponents);
  for (std::uint32_t rank = 0; rank < run->plan->shape.workers(); ++rank) {
    if (!contains(workers, rank)) continue;
    const auto host = static_cast<std::uint16_t>(run->first_host + rank);
    const auto found = contributions_.find({host, header.slot, header.epoch});
    const bool sent = found != contributions_.end() && found->second.origin.generation == run->generation &&
                      found->second.size == packet.size;
    require(sent, "a switch sends a sum of workers that sent nothing");
    if (!sent) return;
    const std::uint8_t* payload = &found->second.bytes[wire::kHeaderSize];
    for (std::size_t i = 0; i < exponents.size(); ++i) exponents[i] = std::max(exponents[i], payload[i]);
    payload += wire::padded(exponents.size());
    for (std::size_t i = 0; i < words.size(); ++i) words[i] += word_at(payload + 4 * i);
  }
  const std::uint8_t* payload = &packet.bytes[wire::kHeaderSize];
  bool exact = std::equal(exponents.begin(), exponents.end(), payload);
  payload += wire::padded(exponents.size());
  for (std::size_t i = 0; i < words.size(); ++i) exact = exact && words[i] == word_at(payload + 4 * i);
  require(exact, "a switch sends something else than the sum of its workers");
}

// Whether these are the bytes of the packet that is being handled: as it is, or with another code.
bool Simulation::is_sent_on(std::span<const std::uint8_t> bytes) const {
  const std::span<const std::uint8_t> handled = handled_->view();
  if (bytes.data() == handled.data()) return true;
  constexpr std::size_t code = offsetof(wire::HeaderBytes, code), payload = wire::kHeaderSize;
  return (plan_.features & kCongestion) && bytes.size() == handled.size() &&
         std::equal(bytes.begin(), bytes.begin() + code, handled.begin()) &&
         std::equal(bytes.begin() + payload, bytes.end(), handled.begin() + payload);
}

}  // namespace jaxina::sim
