// What the trace says: one line for each packet sent and each packet that arrives.
#include "rdma_engine/sim/simulation.h"

namespace jaxina::sim {
namespace {

std::string name_of(const Packet& packet, std::uint16_t host, std::uint16_t first_host) {
  if (host == kSwitch) return "switch";
  return "w" + std::to_string(host - first_host) + (packet.origin.maker == Origin::Maker::kHostile ? " (forged)" : "");
}

std::string describe(const wire::Header& header) {
  const bool look_ahead = header.kind == wire::Kind::kUpdate && header.words == 0;
  return std::string(to_string(header.kind)) + " epoch " + std::to_string(header.epoch) +
         (look_ahead ? " (exponents only)" : "");
}

}  // namespace

void Simulation::tell(std::uint32_t job, std::uint32_t slot, std::string text) {
  if (trace_ != nullptr) trace_->add(now_, job, slot, std::move(text));
}

void Simulation::tell_sent(const Packet& packet, Fate fate) {
  wire::Header header;
  if (wire::parse(packet.view(), header) != wire::ParseResult::kOk) return;
  const Host& host = hosts_[packet.to == kSwitch ? packet.from : packet.to];
  const std::uint16_t first = jobs_[host.job].first_host;
  const char* fates[] = {"", ", lost", ", corrupted"};
  tell(host.job, header.kind == wire::Kind::kAbort ? Trace::kEverySlot : header.slot,
       name_of(packet, packet.from, first) + " -> " + name_of(packet, packet.to, first) + ": " + describe(header) +
           (packet.origin.repeated ? ", again after a timeout" : "") + fates[static_cast<int>(fate)]);
}

void Simulation::tell_arrival(const Packet& packet, std::size_t position, const Counters& before,
                              std::uint64_t updates) {
  wire::Header header;
  const std::size_t owner = packet.origin.host;
  if (owner >= hosts_.size()) return;
  const Host& host = hosts_[owner];
  const JobRun& run = jobs_[host.job];
  const bool sound = wire::parse(packet.view(), header) == wire::ParseResult::kOk;
  std::string what = "duplicate";
  all_counters().for_each([&](Counter counter, std::uint64_t value) {
    if (is_reject(counter) && value != before[counter]) what = "rejected, " + std::string(to_string(counter));
  });
  if (updates_counted() != updates) what = "counted";
  const std::string sender = name_of(packet, static_cast<std::uint16_t>(owner), run.first_host);
  if (!sound) return trace_->insert(position, now_, host.job, Trace::kEverySlot, "switch: a damaged packet of " + sender);
  trace_->insert(position, now_, host.job, header.slot,
                 "switch: " + describe(header) + " of " + sender + ": " + what +
                     (packet.origin.generation != run.generation ? " (of an earlier incarnation)" : ""));
}

void Simulation::tell_reply(const Packet& packet, const Host& host, Session::Reply reply) {
  wire::Header header;
  if (wire::parse(packet.view(), header) != wire::ParseResult::kOk) return;
  const char* replies[] = {"taken", "stale, ignored", "waits for other workers", "refused", "aborted"};
  tell(host.job, header.kind == wire::Kind::kAbort ? Trace::kEverySlot : header.slot,
       "w" + std::to_string(host.rank) + ": " + describe(header) + ": " + replies[static_cast<int>(reply)]);
}

}  // namespace jaxina::sim
