// What the aggregator sends back.
#include <algorithm>
#include <cstring>

#include "rdma_engine/aggregator/job.h"

namespace jaxina {
namespace {

// Longest sentence an abort carries; longer ones are cut.
constexpr std::size_t kMaxReason = 512;

}  // namespace

void Aggregator::finish(Job& job, const wire::Header& header, Output& output) {
  std::uint8_t* packet = job.packet(header.slot, header.epoch);
  std::uint32_t* words = wire::words_of(packet, header.exponents);
  codec_.encode_int32(words, header.words, numerics::Store::kBigEndian, words);
  wire::Header result = header;
  result.kind = wire::Kind::kResult;
  result.worker = wire::kAllWorkers;
  const std::size_t size = wire::packet_size(header.words, header.exponents);
  wire::seal(result, packet, size);
  ++job.counters.results;
  for (const Job::Heard& worker : job.workers) send(job, worker.address, {packet, size}, output);
}

void Aggregator::send(Job& job, const Address& to, std::span<const std::uint8_t> packet, Output& output) {
  ++job.counters.packets_sent;
  job.counters.bytes_sent += packet.size();
  output.send(to, packet);
}

void Aggregator::reply_refused(const wire::Header& header, wire::Refusal refusal, const Address& to, Output& output) {
  // Smaller than the update it answers, so a forged source address gains nothing. The secret goes back as it came: the
  // worker takes no reply without it.
  wire::Header reply = header;
  reply.kind = wire::Kind::kRefused;
  reply.words = 0;
  reply.exponents = 0;
  reply.code = static_cast<std::uint8_t>(refusal);
  std::uint8_t packet[wire::kHeaderSize];
  wire::seal(reply, packet, sizeof(packet));
  output.send(to, packet);
}

void Aggregator::reply_pending(Job& job, const wire::Header& header, const Address& to, Output& output) {
  const WorkerSet& seen = job.slots[header.slot].version(header.epoch).seen;
  const std::size_t bitmap = (job.spec.workers + 7) / 8;
  std::uint8_t packet[wire::kHeaderSize + numerics::kMaxWorkers / 8];
  std::uint8_t* bits = packet + wire::kHeaderSize;
  std::fill_n(bits, bitmap, std::uint8_t{0});
  for (std::uint32_t worker = 0; worker < job.spec.workers; ++worker) {
    if (contains(seen, worker)) bits[worker / 8] |= static_cast<std::uint8_t>(1u << (worker % 8));
  }
  wire::Header reply = header;
  reply.kind = wire::Kind::kPending;
  reply.words = 0;
  reply.exponents = 0;
  wire::seal(reply, packet, wire::kHeaderSize + bitmap);
  send(job, to, {packet, wire::kHeaderSize + bitmap}, output);
}

void Aggregator::reply_aborted(Job& job, std::uint16_t slot, const Address& to, Output& output) {
  std::uint8_t packet[wire::kHeaderSize + kMaxReason];
  const std::size_t length = std::min(job.aborted.message.size(), kMaxReason);
  std::memcpy(packet + wire::kHeaderSize, job.aborted.message.data(), length);
  wire::Header reply;
  reply.kind = wire::Kind::kAbort;
  reply.job = job.spec.job;
  reply.secret = job.spec.secret;
  reply.worker = wire::kAllWorkers;
  reply.slot = slot;
  reply.code = static_cast<std::uint8_t>(job.aborted.code);
  wire::seal(reply, packet, wire::kHeaderSize + length);
  send(job, to, {packet, wire::kHeaderSize + length}, output);
}

void Aggregator::end_mismatched(Job& job, const wire::Header& header, std::uint32_t other, const Address& from,
                                Output& output) {
  // The pass can never complete, so every worker learns why; the one that contradicts may not have been heard before.
  end(job,
      {ErrorCode::kMismatch, "workers " + std::to_string(other) + " and " + std::to_string(header.worker) +
                                 " sum different things in the same call: check that every process runs the same "
                                 "program with equal shapes and dtypes"},
      output);
  reply_aborted(job, header.slot, from, output);
}

void Aggregator::end(Job& job, const Status& reason, Output& output) {
  job.aborted = reason;
  for (const Job::Heard& worker : job.workers) {
    if (worker.address.size > 0) reply_aborted(job, worker.slot, worker.address, output);
  }
}

void Aggregator::abort_job(std::uint32_t id, const Status& reason, Output& output) {
  const auto found = jobs_.find(id);
  if (found != jobs_.end() && found->second->aborted.ok()) end(*found->second, reason, output);
}

}  // namespace jaxina
