// The text of the trace: one line for each packet that is sent and for each packet that arrives.
#include "rdma_engine/sim/simulation.h"

namespace jaxina::sim {
namespace {

std::string name_of(const Packet& packet, std::uint16_t host, std::uint16_t first_host) {
  if (host == kSwitch) return "switch";
  return "w" + std::to_string(host - first_host) + (packet.origin.maker == Origin::Maker::kHostile ? " (forged)" : "");
}

}  // namespace

void Simulation::tell(std::uint32_t job, std::uint32_t slot, std::string text) {
  if (trace_ != nullptr) trace_->add(now_, job, slot, std::move(text));
}

void Simulation::tell_sent(const Packet& packet, Fate fate) {
  const std::optional<Protocol::Description> description = switch_->describe(packet);
  if (!description) return;
  const Host& host = hosts_[packet.to == kSwitch ? packet.from : packet.to];
  const std::uint16_t first = jobs_[host.job].first_host;
  const char* fates[] = {"", ", lost", ", corrupted"};
  tell(host.job, description->slot,
       name_of(packet, packet.from, first) + " -> " + name_of(packet, packet.to, first) + ": " + description->text +
           (packet.origin.repeated ? ", again after a timeout" : "") + fates[static_cast<int>(fate)]);
}

void Simulation::tell_arrival(const Packet& packet, std::size_t position, const Counters& before,
                              std::uint64_t updates) {
  const std::size_t owner = packet.origin.host;
  if (owner >= hosts_.size()) return;
  const Host& host = hosts_[owner];
  const JobRun& run = jobs_[host.job];
  const std::optional<Protocol::Description> description = switch_->describe(packet);
  std::string what = switch_->accounts_for_packets() ? "duplicate" : "taken";
  all_counters().for_each([&](Counter counter, std::uint64_t value) {
    if (is_reject(counter) && value != before[counter]) what = "rejected, " + std::string(to_string(counter));
  });
  if (updates_counted() != updates) what = "counted";
  const std::string sender = name_of(packet, static_cast<std::uint16_t>(owner), run.first_host);
  if (!description)
    return trace_->insert(position, now_, host.job, Trace::kEverySlot, "switch: a damaged packet of " + sender);
  trace_->insert(position, now_, host.job, description->slot,
                 "switch: " + description->text + " of " + sender + ": " + what +
                     (packet.origin.generation != run.generation ? " (of an earlier incarnation)" : ""));
}

void Simulation::tell_reply(const Packet& packet, const Host& host, WorkerEnd::Kind kind) {
  const std::optional<Protocol::Description> description = switch_->describe(packet);
  if (!description) return;
  const char* kinds[] = {"taken", "stale, ignored", "waits for other workers", "refused", "aborted"};
  tell(host.job, description->slot,
       "w" + std::to_string(host.rank) + ": " + description->text + ": " + kinds[static_cast<int>(kind)]);
}

}  // namespace jaxina::sim
