// Jobs come and go, packets are checked and applied. What is sent back is in aggregator_replies.cc.
#include "rdma_engine/aggregator/aggregator.h"

#include <algorithm>
#include <cstring>

#include "rdma_engine/aggregator/job.h"

namespace jaxina {

std::string_view to_string(Reject reject) {
  switch (reject) {
    case Reject::kTruncated: return "truncated";
    case Reject::kForeign: return "foreign";
    case Reject::kBadLength: return "bad_length";
    case Reject::kCorrupt: return "corrupt";
    case Reject::kNotAnUpdate: return "not_an_update";
    case Reject::kUnknownJob: return "unknown_job";
    case Reject::kWrongSecret: return "wrong_secret";
    case Reject::kBadWorker: return "bad_worker";
    case Reject::kBadSlot: return "bad_slot";
    case Reject::kTooLarge: return "too_large";
    case Reject::kStale: return "stale";
    case Reject::kAhead: return "ahead";
    case Reject::kMismatch: return "mismatch";
    case Reject::kAborted: return "aborted";
    case Reject::kCount: break;
  }
  return "unknown";
}

namespace {

Reject to_reject(wire::ParseResult result) {
  switch (result) {
    case wire::ParseResult::kTruncated: return Reject::kTruncated;
    case wire::ParseResult::kForeign: return Reject::kForeign;
    case wire::ParseResult::kBadLength: return Reject::kBadLength;
    case wire::ParseResult::kCorrupt: return Reject::kCorrupt;
    case wire::ParseResult::kOk: break;
  }
  return Reject::kCount;
}

}  // namespace

Aggregator::Job::Job(const JobSpec& s)
    : spec(s),
      stride(wire::packet_size(std::size_t{s.block_size} * s.blocks_per_chunk, s.blocks_per_chunk)),
      slots(s.slots),
      sizes(2 * std::size_t{s.slots}),
      payload(2 * std::size_t{s.slots} * stride),
      workers(s.workers) {
  for (SlotState& slot : slots) slot.reset(s.workers, s.first_epoch);
}

Aggregator::Aggregator(const numerics::Codec& codec) : codec_(codec) {}
Aggregator::~Aggregator() = default;

Status Aggregator::add_job(const JobSpec& spec) {
  const auto invalid = [](const char* why) { return Status(ErrorCode::kInvalidArgument, why); };
  if (spec.workers == 0) return invalid("a job needs at least one worker");
  if (spec.workers > numerics::kMaxWorkers) {
    return {ErrorCode::kTooManyWorkers, "a job has at most " + std::to_string(numerics::kMaxWorkers) +
                                            " workers, not " + std::to_string(spec.workers)};
  }
  if (spec.slots == 0 || spec.slots > 65536) return invalid("a job has between 1 and 65536 slots");
  if (spec.block_size == 0) return invalid("a block has at least one element");
  if (spec.blocks_per_chunk == 0 || spec.blocks_per_chunk > wire::kMaxBlocksPerChunk) {
    return invalid("a chunk has between 1 and 64 blocks");
  }
  const std::size_t packet =
      wire::packet_size(std::size_t{spec.block_size} * spec.blocks_per_chunk, spec.blocks_per_chunk);
  if (packet > wire::kMaxPacketSize) {
    return invalid("a chunk must fit one datagram: lower the block size or the blocks per chunk");
  }
  if (jobs_.contains(spec.job)) {
    return {ErrorCode::kJobRejected, "job " + std::to_string(spec.job) + " exists already"};
  }
  const std::size_t pool = 2 * packet * spec.slots;
  if (pool > kMaxPoolBytes - pool_bytes_) {
    return {ErrorCode::kJobRejected, "a pool of " + std::to_string(spec.slots) + " slots takes " +
                                         std::to_string(pool >> 20) + " MiB, and the switch has " +
                                         std::to_string((kMaxPoolBytes - pool_bytes_) >> 20) +
                                         " MiB left for pools: lower the slots or the chunk"};
  }
  const auto job = jobs_.emplace(spec.job, std::make_unique<Job>(spec)).first;
  pool_bytes_ += job->second->payload.size();
  return {};
}

void Aggregator::remove_job(std::uint32_t id) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return;
  pool_bytes_ -= found->second->payload.size();
  jobs_.erase(found);
}

void Aggregator::on_packet(std::span<const std::uint8_t> packet, const Address& from, Output& output) {
  wire::Header header;
  const wire::ParseResult parsed = wire::parse(packet, header);
  if (parsed != wire::ParseResult::kOk) return reject(to_reject(parsed), nullptr);
  if (header.kind != wire::Kind::kUpdate) return reject(Reject::kNotAnUpdate, nullptr);
  const auto found = jobs_.find(header.job);
  if (found == jobs_.end()) {
    reject(Reject::kUnknownJob, nullptr);
    return reply_refused(header, wire::Refusal::kUnknownJob, from, output);
  }
  Job& job = *found->second;
  if (header.secret != job.spec.secret) {
    reject(Reject::kWrongSecret, &job);
    return reply_refused(header, wire::Refusal::kUnknownJob, from, output);
  }
  if (header.worker >= job.spec.workers) return reject(Reject::kBadWorker, &job);
  if (header.slot >= job.spec.slots) return reject(Reject::kBadSlot, &job);
  if (header.exponents > job.spec.blocks_per_chunk ||
      header.words > std::size_t{job.spec.block_size} * job.spec.blocks_per_chunk) {
    return reject(Reject::kTooLarge, &job);
  }
  job.counters.bytes_received += packet.size();
  if (!job.aborted.ok()) {
    reject(Reject::kAborted, &job);
    return reply_aborted(job, header.slot, from, output);
  }
  apply(job, header, packet.data(), from, output);
}

void Aggregator::apply(Job& job, const wire::Header& header, const std::uint8_t* packet, const Address& from,
                       Output& output) {
  SlotState& slot = job.slots[header.slot];
  const SlotVersion& current = slot.version(header.epoch);
  const Job::Size held = job.size(header.slot, header.epoch);
  if (current.epoch == header.epoch && current.fingerprint == header.fingerprint &&
      (held.words != header.words || held.exponents != header.exponents)) {
    return reject(Reject::kMismatch, &job);  // equal fingerprints mean equal sizes: this packet is not a worker's
  }
  const Outcome outcome = apply_update(slot, job.spec.workers, {header.worker, header.epoch, header.fingerprint});
  switch (outcome.verdict) {
    case Verdict::kFirst:
    case Verdict::kAdd:
      ++job.counters.updates;
      job.workers[header.worker] = {from, header.slot};
      accept(job, header, packet, outcome.verdict == Verdict::kFirst);
      if (outcome.completes) finish(job, header, output);
      return;
    case Verdict::kDuplicate:
      ++job.counters.duplicates;
      return reply_pending(job, header, from, output);
    case Verdict::kResend:
      ++job.counters.duplicates;
      return send(job, from, {job.packet(header.slot, header.epoch), wire::packet_size(held.words, held.exponents)}, output);
    case Verdict::kStale:
      return reject(Reject::kStale, &job);
    case Verdict::kAhead:
      reject(Reject::kAhead, &job);
      return reply_refused(header, wire::Refusal::kAhead, from, output);
    case Verdict::kMismatch:
      reject(Reject::kMismatch, &job);
      return end_mismatched(job, header, current.first, from, output);
  }
}

void Aggregator::accept(Job& job, const wire::Header& header, const std::uint8_t* packet, bool first) {
  std::uint8_t* slot = job.packet(header.slot, header.epoch);
  const std::uint32_t* in = wire::words_of(packet, header.exponents);
  std::uint32_t* words = wire::words_of(slot, header.exponents);
  const std::uint8_t* arrived = wire::exponents_of(packet);
  std::uint8_t* exponents = wire::exponents_of(slot);
  if (first) {
    job.size(header.slot, header.epoch) = {header.words, header.exponents};
    codec_.load_big_endian(in, header.words, words);
    std::copy_n(arrived, header.exponents, exponents);
    return;
  }
  codec_.add_big_endian(in, header.words, words);
  for (std::size_t i = 0; i < header.exponents; ++i) exponents[i] = std::max(exponents[i], arrived[i]);
}

const JobCounters* Aggregator::counters(std::uint32_t job) const {
  const auto found = jobs_.find(job);
  return found == jobs_.end() ? nullptr : &found->second->counters;
}

const Aggregator::Rejects* Aggregator::rejects(std::uint32_t job) const {
  const auto found = jobs_.find(job);
  return found == jobs_.end() ? nullptr : &found->second->rejects;
}

std::vector<std::uint32_t> Aggregator::missing(std::uint32_t id) const {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return {};
  const Job& job = *found->second;
  std::vector<std::uint32_t> result;
  for (std::uint32_t worker = 0; worker < job.spec.workers; ++worker) {
    const bool awaited = std::any_of(job.slots.begin(), job.slots.end(), [&](const SlotState& slot) {
      return std::any_of(slot.versions.begin(), slot.versions.end(), [&](const SlotVersion& version) {
        return version.count < job.spec.workers && !contains(version.seen, worker);
      });
    });
    if (awaited) result.push_back(worker);
  }
  return result;
}

std::optional<SlotContents> Aggregator::inspect(std::uint32_t id, std::uint32_t slot, std::uint32_t version) const {
  const auto found = jobs_.find(id);
  if (found == jobs_.end() || slot >= found->second->spec.slots) return std::nullopt;
  Job& job = *found->second;
  const Job::Size size = job.size(slot, version);
  const std::uint8_t* packet = job.packet(slot, version);
  const std::uint8_t* exponents = wire::exponents_of(packet);
  const std::uint32_t* words = wire::words_of(packet, size.exponents);
  SlotContents contents{job.slots[slot].version(version), {exponents, exponents + size.exponents},
                        std::vector<std::uint32_t>(size.words)};
  if (contents.control.count == job.spec.workers) {  // a result packet by now, in network byte order
    codec_.load_big_endian(words, size.words, contents.words.data());
  } else {
    std::copy_n(words, size.words, contents.words.data());
  }
  return contents;
}

void Aggregator::reject(Reject reason, Job* job) {
  ++rejects_[static_cast<std::size_t>(reason)];
  if (job != nullptr) ++job->rejects[static_cast<std::size_t>(reason)];
}

}  // namespace jaxina
