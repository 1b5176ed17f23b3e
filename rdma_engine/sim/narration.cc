// The text of the trace: one line for each packet that is sent and for each packet that arrives.
#include <algorithm>

#include "rdma_engine/sim/simulation.h"

namespace jaxina::sim {
namespace {

// What happened to a packet that was counted there.
std::string what_is(Counter counter) {
  switch (counter) {
    case Counter::kDuplicates: return "duplicate";
    case Counter::kOverlaps: return "counted in part already";
    case Counter::kClaims: return "claims an entry";
    case Counter::kJoins: return "joins its entry";
    case Counter::kAbsorbed: return "in its entry already";
    case Counter::kCollisions:
    case Counter::kPassedOn:
    case Counter::kReplies: return "passed on";
    default: return "rejected, " + std::string(to_string(counter));
  }
}

}  // namespace

std::string Simulation::name_of(const Packet& packet, std::uint16_t node) {
  if (node == kSwitch) return "switch";
  if (node == hostile_host()) return "stranger";
  const auto leaf = std::find(nodes_.leaves.begin(), nodes_.leaves.end(), node);
  if (leaf != nodes_.leaves.end()) return "rack switch " + std::to_string(leaf - nodes_.leaves.begin());
  const auto server = std::find(nodes_.servers.begin(), nodes_.servers.end(), node);
  if (server != nodes_.servers.end()) return "server " + std::to_string(server - nodes_.servers.begin());
  const std::string worker = "w" + std::to_string(process_at(node)->rank);
  if (node >= hosts_.size()) return "server of " + worker;
  return worker + (packet.origin.maker == Origin::Maker::kHostile ? " (forged)" : "");
}

void Simulation::tell(std::uint32_t job, std::uint32_t slot, std::string text) {
  if (trace_ != nullptr) trace_->add(now_, job, slot, std::move(text));
}

void Simulation::tell_sent(const Packet& packet, Fate fate) {
  const std::optional<Protocol::Description> description = switch_->describe(packet);
  if (!description) return;
  const std::uint16_t host_index = packet.from < hosts_.size() ? packet.from
                                   : packet.to < hosts_.size() ? packet.to
                                                               : packet.origin.host;
  if (host_index >= hosts_.size()) return;
  const Host& host = hosts_[host_index];
  const char* fates[] = {"", ", lost", ", corrupted"};
  tell(host.job, description->slot,
       name_of(packet, packet.from) + " -> " + name_of(packet, packet.to) + ": " + description->text +
           (packet.origin.repeated ? ", again after a timeout" : "") + fates[static_cast<int>(fate)]);
}

void Simulation::tell_arrival(const Packet& packet, std::size_t position, const Counters& before,
                              std::uint64_t updates) {
  const std::size_t owner = packet.origin.host;
  if (owner >= hosts_.size()) return;
  const Host& host = hosts_[owner];
  const JobRun& run = jobs_[host.job];
  const std::optional<Protocol::Description> description = switch_->describe(packet);
  std::string what = "taken";
  all_counters().for_each([&](Counter counter, std::uint64_t value) {
    if (counts_datagrams(counter) && value != before[counter]) what = what_is(counter);
  });
  if (updates_counted() != updates) what = "counted";
  const std::string sender = name_of(packet, static_cast<std::uint16_t>(owner));
  if (!description)
    return trace_->insert(position, now_, host.job, Trace::kEverySlot,
                          name_of(packet, packet.to) + ": a damaged packet of " + sender);
  trace_->insert(position, now_, host.job, description->slot,
                 name_of(packet, packet.to) + ": " + description->text + " of " + sender + ": " + what +
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
