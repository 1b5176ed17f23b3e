#include "rdma_engine/combiner/combiner.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "rdma_engine/base/assert.h"
#include "rdma_engine/base/narrow.h"
#include "rdma_engine/datagrams/notices.h"
#include "rdma_engine/datagrams/parse_counters.h"

namespace jaxina {

Combiner::Combiner(const CombinerOptions& options, const numerics::Codec& codec)
    : options_(options),
      codec_(codec),
      table_(options.table, options.lifetime),
      queues_(options.queues, options.port_of),
      copy_(std::make_unique_for_overwrite<std::uint8_t[]>(wire::kMaxPacketSize)) {
  JAXINA_ASSERT(options.table.packet_bytes % 4 == 0);
}

bool Combiner::add(std::unique_ptr<CombinedJob> job) {
  const auto [place, is_new] = jobs_.try_emplace(job->spec().job);
  if (!is_new) return false;
  job->overflows_told() = overflows_;
  place->second = {++registrations_, std::move(job)};
  return true;
}

std::unique_ptr<CombinedJob> Combiner::remove(std::uint32_t job) {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return nullptr;
  table_.free_job(found->second.number);
  std::unique_ptr<CombinedJob> removed = std::move(found->second.job);
  jobs_.erase(found);
  return removed;
}

const CombinedJob* Combiner::find(std::uint32_t job) const {
  const auto found = jobs_.find(job);
  return found == jobs_.end() ? nullptr : found->second.job.get();
}

std::size_t Combiner::entries_held(std::uint32_t job, Nanoseconds now) const {
  const auto found = jobs_.find(job);
  std::size_t held = 0;
  if (found == jobs_.end()) return held;
  table_.for_each_held(now, [&](const PassId& pass) { held += pass.job == found->second.number; });
  return held;
}

std::size_t Combiner::entries_held(Nanoseconds now) const {
  std::size_t held = 0;
  table_.for_each_held(now, [&](const PassId&) { ++held; });
  return held;
}

void Combiner::on_packet(std::span<const std::uint8_t> packet, const Address& from, Nanoseconds now,
                         PacketOutput& output) {
  wire::Header header;
  const wire::ParseResult parsed = wire::parse(packet, header, wire::Checksum::kOptionalInSums);
  if (parsed != wire::ParseResult::kOk) {
    ++without_job_[counter_of(parsed)];
    return;
  }
  const auto found = jobs_.find(header.job);
  if (found == jobs_.end()) {
    ++without_job_[Counter::kUnknownJob];
    if (!wire::is_reply(header.kind)) output.send(from, refused_notice(header, wire::Refusal::kUnknownJob).packet());
    return;
  }
  Registration& registration = found->second;
  Counters& counters = registration.job->counters();
  if (header.secret != registration.job->spec().secret) {
    ++counters[Counter::kWrongSecret];
    if (!wire::is_reply(header.kind)) output.send(from, refused_notice(header, wire::Refusal::kUnknownJob).packet());
    return;
  }
  counters[Counter::kBytesReceived] += packet.size();
  const Arrival arrival{header, packet, from, now};
  if (wire::is_reply(header.kind)) on_reply(registration, arrival, output);
  else on_update(registration, arrival, output);
}

void Combiner::on_update(Registration& registration, const Arrival& arrival, PacketOutput& output) {
  CombinedJob& job = *registration.job;
  const wire::Header& header = arrival.header;
  const JobShape& shape = job.spec().shape;
  if (header.slot >= shape.slots()) return void(++job.counters()[Counter::kBadSlot]);
  if (!shape.admits(header.format, header.words, header.exponents)) return void(++job.counters()[Counter::kTooLarge]);
  const bool is_group = header.kind == wire::Kind::kCombined;
  if (is_group != (header.worker >= wire::kFirstGroup)) return void(++job.counters()[Counter::kBadWorker]);
  const std::optional<std::uint32_t> child = job.child(header.worker);
  // A server counts a sum because it comes from here, so other sums than the children's must not be sent on.
  if (is_group && !child) return void(++job.counters()[Counter::kForeign]);
  // The sum of a group's narrow words does not fit into such words, so they are sent on.
  const bool direct =
      wire::transmission_of(header.code) >= wire::Transmission::kUncombined || header.format != wire::Format::kInt32;
  if (!child || direct || job.children() == 1 || table_.size().entries == 0 || sends_on(header)) {
    if (const auto way = job.way_to(header.worker)) job.contact(*way, header.slot) = arrival.from;
    ++job.counters()[Counter::kPassedOn];
    return send_on(job, arrival, output);
  }
  combine(registration, arrival, *child, output);
}

void Combiner::combine(Registration& registration, const Arrival& arrival, std::uint32_t child, PacketOutput& output) {
  CombinedJob& job = *registration.job;
  Counters& counters = job.counters();
  const wire::Header& header = arrival.header;
  const PassId pass = id_of(registration, header);
  const std::size_t index = table_.index_of(pass);
  const EntryOutcome outcome =
      apply_to_entry(table_[index],
                     {.pass = pass,
                      .child = child,
                      .children = job.children(),
                      .may_claim = wire::transmission_of(header.code) == wire::Transmission::kFirst,
                      .marked = wire::is_marked(header.code)},
                     arrival.now, table_.lifetime());
  counters[Counter::kExpired] += outcome.expired;
  PassSum sum = table_.sum(index, header.exponents);
  const std::span words(wire::words_of(arrival.packet.data(), header.exponents), header.words);
  const std::span exponents(wire::exponents_of(arrival.packet.data()), header.exponents);
  switch (outcome.verdict) {
    case EntryVerdict::kClaim:
      ++counters[Counter::kClaims];
      sum.set(codec_, words, exponents);
      break;
    case EntryVerdict::kJoin:
      ++counters[Counter::kJoins];
      sum.add(codec_, words, exponents);
      break;
    case EntryVerdict::kAbsorb: ++counters[Counter::kAbsorbed]; return;
    case EntryVerdict::kRepeat:
      ++counters[Counter::kAbsorbed];
      return send_sum(job, index, arrival, wire::Transmission::kAgain, output);
    case EntryVerdict::kPass:
      ++counters[Counter::kCollisions];
      job.contact(child, header.slot) = arrival.from;
      return send_on(job, arrival, output);
  }
  job.contact(child, header.slot) = arrival.from;
  if (!outcome.completes) return;
  sum.finish(codec_, header.words, 0);
  ++counters[Counter::kCombined];
  send_sum(job, index, arrival, wire::Transmission::kFirst, output);
}

PassId Combiner::id_of(const Registration& registration, const wire::Header& header) {
  return {registration.number, header.slot, header.epoch, header.fingerprint, header.words, header.exponents};
}

// Whether the experiment wants the packet's pass sent on. All packets of a pass are treated alike.
bool Combiner::sends_on(const wire::Header& header) const {
  if (options_.share_sent_on == 0) return false;
  const std::uint64_t pass = (std::uint64_t{header.slot} << 32 | header.epoch) * 0x9e3779b97f4a7c15;
  return (pass >> 48) < options_.share_sent_on;
}

void Combiner::send_sum(CombinedJob& job, std::size_t entry, const Arrival& arrival, wire::Transmission transmission,
                        PacketOutput& output) {
  wire::Header combined = arrival.header;
  combined.kind = wire::Kind::kCombined;
  combined.worker = narrow<std::uint16_t>(wire::kFirstGroup + job.spec().group);
  const Address to = upstream(job, arrival);
  const auto code = static_cast<std::uint8_t>(transmission);
  combined.code = mark(job, table_[entry].marked ? code | wire::kMarked : code, queues_.is_over(to, arrival.now));
  const std::size_t size = wire::packet_size(combined.words, combined.exponents);
  wire::seal(combined, table_.packet(entry), size);
  send(job, arrival, to, {table_.packet(entry), size}, output);
}

void Combiner::send_on(CombinedJob& job, const Arrival& arrival, PacketOutput& output) {
  const Address to = upstream(job, arrival);
  const std::uint8_t code = mark(job, arrival.header.code, queues_.is_over(to, arrival.now));
  send(job, arrival, to, with_code(arrival, code), output);
}

// The server must see the address at which the workers know this switch, so it is where this worker's packet came to.
Address Combiner::upstream(const CombinedJob& job, const Arrival& arrival) {
  Address to = job.upstream(arrival.header.slot);
  to.local = arrival.from.local;
  return to;
}

// The code of a packet whose port has a queue or not.
std::uint8_t Combiner::mark(CombinedJob& job, std::uint8_t code, bool is_over) const {
  if (!is_over || wire::is_marked(code)) return code;
  ++job.counters()[Counter::kMarked];
  return code | wire::kMarked;
}

// The packet that has arrived, with this code. It is valid until the next call.
std::span<const std::uint8_t> Combiner::with_code(const Arrival& arrival, std::uint8_t code) {
  if (code == arrival.header.code) return arrival.packet;
  wire::Header header = arrival.header;
  header.code = code;
  JAXINA_ASSERT(arrival.packet.size() <= wire::kMaxPacketSize);  // a JobShape admits no larger pass
  std::memcpy(copy_.get(), arrival.packet.data(), arrival.packet.size());
  wire::seal(header, copy_.get(), arrival.packet.size());
  return {copy_.get(), arrival.packet.size()};
}

void Combiner::on_reply(Registration& registration, const Arrival& arrival, PacketOutput& output) {
  CombinedJob& job = *registration.job;
  const wire::Header& header = arrival.header;
  const JobShape& shape = job.spec().shape;
  if (header.slot >= shape.slots()) return void(++job.counters()[Counter::kBadSlot]);
  if (!same_peer(arrival.from, job.upstream(header.slot))) return void(++job.counters()[Counter::kForeign]);
  // A job's secret and servers are what a stranger says they are, so its results may have any size.
  if (header.kind == wire::Kind::kResult && !shape.admits(header.format, header.words, header.exponents)) {
    return void(++job.counters()[Counter::kTooLarge]);
  }
  ++job.counters()[Counter::kReplies];
  if (header.worker != wire::kAllWorkers) {
    const auto way = job.way_to(header.worker);
    if (way) send(job, arrival, job.contact(*way, header.slot), arrival.packet, output);
    return;
  }
  if (header.kind != wire::Kind::kResult) return send_to_all(job, arrival, arrival.packet, output);
  // Passes of other formats have no entries.
  if (table_.size().entries > 0 && header.format == wire::Format::kInt32) {
    const PassId pass = id_of(registration, header);
    job.counters()[Counter::kReleased] +=
        release(table_[table_.index_of(pass)], pass, arrival.now, table_.lifetime()) ? 1 : 0;
  }
  std::uint8_t code = header.code;
  if (std::exchange(job.overflows_told(), overflows_) != overflows_) code |= wire::kOverflowed;
  // All workers get the same packet. The slowest port decides for all of them.
  bool is_over = false;
  for (std::uint32_t child = 0; child < job.children(); ++child) {
    is_over = is_over || queues_.is_over(job.contact(child, header.slot), arrival.now);
  }
  send_to_all(job, arrival, with_code(arrival, mark(job, code, is_over)), output);
}

void Combiner::send_to_all(CombinedJob& job, const Arrival& arrival, std::span<const std::uint8_t> packet,
                           PacketOutput& output) {
  for (std::uint32_t child = 0; child < job.children(); ++child) {
    send(job, arrival, job.contact(child, arrival.header.slot), packet, output);
  }
}

void Combiner::send(CombinedJob& job, const Arrival& arrival, const Address& to, std::span<const std::uint8_t> packet,
                    PacketOutput& output) {
  if (to.size == 0) return;  // nothing has come from there yet
  queues_.on_sent(to, packet.size(), arrival.now);
  ++job.counters()[Counter::kPacketsSent];
  job.counters()[Counter::kBytesSent] += packet.size();
  output.send(to, packet);
}

}  // namespace jaxina
