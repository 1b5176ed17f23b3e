#include "rdma_engine/datagrams/datagram_aggregator.h"

#include <utility>

#include "rdma_engine/aggregator/mismatch.h"
#include "rdma_engine/datagrams/notices.h"
#include "rdma_engine/datagrams/parse_counters.h"

namespace jaxina {
namespace {

// The sealed packet that contains the result.
std::span<const std::uint8_t> packet_of(const ResultView& result) {
  return {result.headroom, wire::packet_size(result.words.size(), result.exponents.size())};
}

}  // namespace

bool DatagramAggregator::add(std::unique_ptr<DatagramJob> job) {
  const std::uint32_t id = job->id();
  job->overflows_told() = overflows_;  // the job did not lose the datagrams of earlier overflows
  return jobs_.try_emplace(id, std::move(job)).second;
}

std::unique_ptr<DatagramJob> DatagramAggregator::remove(std::uint32_t id) {
  auto node = jobs_.extract(id);
  return node.empty() ? nullptr : std::move(node.mapped());
}

const Aggregator* DatagramAggregator::find(std::uint32_t id) const {
  const auto found = jobs_.find(id);
  return found == jobs_.end() ? nullptr : &found->second->aggregator();
}

void DatagramAggregator::on_packet(std::span<const std::uint8_t> packet, const Address& from, PacketOutput& output,
                                   wire::Checksum checksum) {
  wire::Header header;
  const wire::ParseResult parsed = wire::parse(packet, header, checksum);
  if (parsed != wire::ParseResult::kOk) {
    ++without_job_[counter_of(parsed)];
    return;
  }
  if (wire::is_reply(header.kind)) {
    ++without_job_[Counter::kNotAnUpdate];
    return;
  }
  const auto found = jobs_.find(header.job);
  if (found == jobs_.end()) {
    ++without_job_[Counter::kUnknownJob];
    return output.send(from, refused_notice(header, wire::Refusal::kUnknownJob).packet());
  }
  DatagramJob& job = *found->second;
  Counters& counters = job.aggregator().counters();
  if (header.secret != job.secret()) {
    ++counters[Counter::kWrongSecret];
    return output.send(from, refused_notice(header, wire::Refusal::kUnknownJob).packet());
  }
  const bool is_sum = header.kind == wire::Kind::kCombined;
  const WorkerSet* group = is_sum ? job.group(header.worker, header.slot, from) : nullptr;
  if (is_sum && group == nullptr) {
    ++counters[Counter::kForeign];
    return;
  }
  const Answer answer =
      job.aggregator().on_update({.worker = group != nullptr ? lowest(*group) : header.worker,
                                  .slot = header.slot,
                                  .epoch = header.epoch,
                                  .fingerprint = header.fingerprint,
                                  .words = {wire::words_of(packet.data(), header.exponents), header.words},
                                  .exponents = {wire::exponents_of(packet.data()), header.exponents},
                                  .group = group,
                                  .format = header.format});
  counters[Counter::kBytesReceived] += packet.size();
  if (wire::is_marked(header.code) && answer.effect != Effect::kRejected) job.marked() = true;
  tell_all(job, header, answer, output);
  reply(job, header, answer, from, output);
}

void DatagramAggregator::heard_from(DatagramJob& job, const wire::Header& header, const Address& from) {
  if (header.kind == wire::Kind::kCombined)
    job.contacts().heard_from_group(header.worker - wire::kFirstGroup, {from, header.slot});
  else job.contacts().heard_from(header.worker, {from, header.slot});
}

void DatagramAggregator::reply(DatagramJob& job, const wire::Header& header, const Answer& answer, const Address& from,
                               PacketOutput& output) {
  switch (answer.effect) {
    case Effect::kCounted: return heard_from(job, header, from);
    case Effect::kCompleted: heard_from(job, header, from); return send_result(job, header, answer.result, output);
    case Effect::kPending: {
      // A switch tells all workers of its group who is seen: those who are not must send directly.
      wire::Header asked = header;
      if (header.kind == wire::Kind::kCombined) asked.worker = wire::kAllWorkers;
      return send(job, from, pending_notice(asked, *answer.seen, job.aggregator().shape().workers()).packet(), output);
    }
    case Effect::kResultAgain: return send(job, from, packet_of(answer.result), output);
    case Effect::kAhead: return output.send(from, refused_notice(header, wire::Refusal::kAhead).packet());
    case Effect::kMismatch:
      // The pass can never complete, so tell every worker why. The contradicting worker may not be in workers() yet, so
      // tell it too.
      end(job, mismatch_between(answer.other, answer.worker), output);
      return send_aborted(job, header.slot, from, output);
    case Effect::kEnded: return send_aborted(job, header.slot, from, output);
    case Effect::kRejected: return;
  }
}

// A switch may hold what other workers have sent of the pass, and wait for this worker in vain. So they must send it
// again. If this worker has sent it three times, or more often, and waits for others, what they sent may be lost. They
// may not know that for long: after silence, a worker sends its passes again one by one.
void DatagramAggregator::tell_all(DatagramJob& job, const wire::Header& header, const Answer& answer,
                                  PacketOutput& output) {
  const wire::Transmission transmission = wire::transmission_of(header.code);
  const bool directly = transmission == wire::Transmission::kDirect;
  const bool alone = transmission == wire::Transmission::kAgain && header.kind != wire::Kind::kCombined;
  const bool counted = answer.effect == Effect::kCounted, pending = answer.effect == Effect::kPending;
  if (directly && (counted || answer.effect == Effect::kCompleted)) job.came_directly(header.slot) = 1;
  const bool waits = transmission == wire::Transmission::kUncombined && pending;
  const Address* nearest = job.switch_of(header.slot);
  const bool tells = directly || alone ? counted || pending : waits;
  if (!tells || nearest == nullptr) return;
  wire::Header told = header;
  told.worker = wire::kAllWorkers;
  const std::uint32_t workers = job.aggregator().shape().workers();
  const std::uint8_t code = directly ? wire::kCameDirectly : alone ? wire::kCameAlone : std::uint8_t{0};
  send(job, *nearest, pending_notice(told, *answer.seen, workers, code).packet(), output);
}

void DatagramAggregator::send_result(DatagramJob& job, const wire::Header& header, const ResultView& result,
                                     PacketOutput& output) {
  // The pool keeps the sealed packet, so it can be sent again.
  const std::span<const std::uint8_t> packet = packet_of(result);
  wire::Header sealed = header;
  sealed.kind = wire::Kind::kResult;
  sealed.worker = wire::kAllWorkers;
  sealed.code = std::exchange(job.marked(), false) ? wire::kMarked : 0;
  if (std::exchange(job.came_directly(header.slot), std::uint8_t{0}) != 0) sealed.code |= wire::kCameDirectly;
  if (std::exchange(job.overflows_told(), overflows_) != overflows_) sealed.code |= wire::kOverflowed;
  wire::seal(sealed, result.headroom, packet.size(), job.writes_crc());
  for (const WorkerContact& worker : job.contacts().receivers(header.slot)) send(job, worker.address, packet, output);
}

void DatagramAggregator::send(DatagramJob& job, const Address& to, std::span<const std::uint8_t> packet,
                              PacketOutput& output) {
  Counters& counters = job.aggregator().counters();
  ++counters[Counter::kPacketsSent];
  counters[Counter::kBytesSent] += packet.size();
  output.send(to, packet);
}

void DatagramAggregator::send_aborted(DatagramJob& job, std::uint16_t slot, const Address& to, PacketOutput& output) {
  send(job, to, aborted_notice(job.id(), job.secret(), slot, job.aggregator().ended()).packet(), output);
}

void DatagramAggregator::end(DatagramJob& job, const Status& reason, PacketOutput& output) {
  job.aggregator().end(reason);
  job.contacts().for_each(
      [&](const WorkerContact& contact) { send_aborted(job, contact.slot, contact.address, output); });
}

void DatagramAggregator::abort(std::uint32_t id, const Status& reason, PacketOutput& output) {
  const auto found = jobs_.find(id);
  if (found != jobs_.end() && found->second->aggregator().ended().ok()) end(*found->second, reason, output);
}

}  // namespace jaxina
