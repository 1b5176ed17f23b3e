#include "rdma_engine/messages/message_aggregator.h"

#include <algorithm>
#include <random>
#include <string>
#include <utility>

#include "rdma_engine/aggregator/mismatch.h"
#include "rdma_engine/base/narrow.h"

namespace jaxina {

using roce::MessageLayout;
using roce::Placement;

namespace {

constexpr std::uint32_t kFirstQpn = 2;  // 0 and 1 are reserved

}  // namespace

MessageAggregator::MessageAggregator(std::optional<std::uint32_t> first_qpn)
    : random_qpns_(!first_qpn), next_qpn_(std::max(first_qpn.value_or(0) & roce::kMask24, kFirstQpn)) {}

bool MessageAggregator::add(std::unique_ptr<MessageJob> job) {
  const std::uint32_t id = job->spec().job;
  return jobs_.try_emplace(id, std::move(job)).second;
}

std::unique_ptr<MessageJob> MessageAggregator::remove(std::uint32_t id) {
  auto node = jobs_.extract(id);
  if (node.empty()) return nullptr;
  for (const auto& connection : node.mapped()->connections()) {
    if (connection) forget(*connection);
  }
  return std::move(node.mapped());
}

MessageJob* MessageAggregator::find(std::uint32_t id) {
  const auto found = jobs_.find(id);
  return found == jobs_.end() ? nullptr : found->second.get();
}

void MessageAggregator::forget(Connection& connection) {
  connections_.erase(connection.first_qpn);
  if (latest_ == &connection) latest_ = nullptr;
  for (Queue& queue : connection.queues) {
    if (queue.buffer != nullptr) connection.job->buffers().give_back(std::exchange(queue.buffer, nullptr));
  }
}

std::unique_ptr<MessageJob::Connection> MessageAggregator::connect(std::uint32_t id,
                                                                   std::unique_ptr<Connection> connection) {
  MessageJob* job = find(id);
  if (job == nullptr) throw Error(ErrorCode::kJobRejected, "there is no job " + std::to_string(id));
  std::unique_ptr<Connection>& place = job->connections().at(connection->worker);
  std::unique_ptr<Connection> old = std::exchange(place, nullptr);
  if (old) forget(*old);
  connection->job = job;
  connection->first_qpn = free_qpns(connection->queues.size());
  connections_.emplace(connection->first_qpn, connection.get());
  place = std::move(connection);
  return old;
}

// Finds `count` consecutive queue pair numbers that no connection uses. Searches upward from next_qpn_, then once more
// from the beginning.
std::uint32_t MessageAggregator::free_qpns(std::size_t count) {
  if (random_qpns_) next_qpn_ = std::max<std::uint32_t>(std::random_device()() & roce::kMask24, kFirstQpn);
  const auto numbers = narrow<std::uint32_t>(count);
  bool wrapped = false;
  while (true) {
    if (next_qpn_ + numbers > roce::kMask24) {  // the last number is reserved for multicast
      if (std::exchange(wrapped, true)) throw Error(ErrorCode::kJobRejected, "the switch has no queue pairs left");
      next_qpn_ = kFirstQpn;
    }
    // The last connection that begins before the end of these numbers. The range is free if that connection ends before
    // it.
    auto after = connections_.lower_bound(next_qpn_ + numbers);
    if (after != connections_.begin()) {
      const Connection& before = *std::prev(after)->second;
      const std::uint32_t end = before.first_qpn + narrow<std::uint32_t>(before.queues.size());
      if (end > next_qpn_) {
        next_qpn_ = end;
        continue;
      }
    }
    const std::uint32_t first = next_qpn_;
    next_qpn_ += numbers;
    return first;
  }
}

MessageAggregator::Connection* MessageAggregator::connection_of(std::uint32_t qpn) {
  if (latest_ != nullptr && qpn - latest_->first_qpn < latest_->queues.size()) return latest_;
  auto after = connections_.upper_bound(qpn);
  if (after == connections_.begin()) return nullptr;
  Connection* found = std::prev(after)->second;
  if (qpn - found->first_qpn >= found->queues.size()) return nullptr;
  return latest_ = found;
}

bool MessageAggregator::knows(std::uint32_t qpn, const Address& from, SameHost same_host) {
  const Connection* connection = connection_of(qpn);
  if (connection != nullptr && same_host(from, connection->peer)) return true;
  ++without_job_[Counter::kRdmaUnknownQueuePair];
  return false;
}

void MessageAggregator::on_packet(const roce::Packet& packet, Output& output) {
  Connection* connection = connection_of(packet.headers.qpn);
  if (connection == nullptr) {
    ++without_job_[Counter::kRdmaUnknownQueuePair];
    return;
  }
  const std::size_t index = packet.headers.qpn - connection->first_qpn;
  Queue& queue = connection->queues[index];
  const auto resolve = [&](const roce::Headers& headers) { return place_for(*connection, index, headers); };
  switch (queue.responder.on_packet(packet, connection->mtu, resolve)) {
    case Placement::kPlaced: return;
    case Placement::kComplete:
      deliver(*connection, queue, output);
      connection->job->buffers().give_back(std::exchange(queue.buffer, nullptr));
      return;
    case Placement::kOutOfSequence: ++without_job_[Counter::kRdmaOutOfSequence]; return;
    case Placement::kBadLength: ++without_job_[Counter::kRdmaBadLength]; return;
    case Placement::kNoAccess: ++without_job_[Counter::kRdmaNoAccess]; return;
  }
}

std::uint8_t* MessageAggregator::place_for(Connection& connection, std::size_t index, const roce::Headers& headers) {
  MessageJob& job = *connection.job;
  const JobShape& shape = job.spec().shape;
  const auto pass = roce::pass_at(headers.address);
  if (headers.rkey != job.rkey() || !pass || pass->slot != index || index >= shape.slots()) return nullptr;
  const std::size_t least = 4 * job.layout().check_words() + wire::padded(pass->exponents);
  const bool fits = pass->exponents <= shape.exponents_per_pass() && headers.length <= job.layout().largest() &&
                    headers.length >= least && headers.length % 4 == 0;
  if (!fits) return nullptr;
  Queue& queue = connection.queues[index];
  queue.pass = *pass;
  if (queue.buffer == nullptr) queue.buffer = job.buffers().take();
  return queue.buffer;
}

void MessageAggregator::deliver(Connection& connection, Queue& queue, Output& output) {
  MessageJob& job = *connection.job;
  const roce::Headers& message = queue.responder.message();
  const std::size_t words = (message.length - wire::padded(queue.pass.exponents)) / 4;
  Counters& counters = job.aggregator().counters();
  counters[Counter::kBytesReceived] += message.length;
  const Answer answer =
      job.aggregator().on_update({.worker = connection.worker,
                                  .slot = queue.pass.slot,
                                  .epoch = queue.pass.epoch,
                                  .fingerprint = message.immediate,
                                  .words = {reinterpret_cast<const std::uint32_t*>(queue.buffer), words},
                                  .exponents = {queue.buffer + 4 * words, queue.pass.exponents},
                                  .format = queue.pass.format});
  const wire::Header header{.kind = wire::Kind::kUpdate,
                            .job = job.spec().job,
                            .secret = job.spec().secret,
                            .worker = narrow<std::uint16_t>(connection.worker),
                            .slot = queue.pass.slot,
                            .epoch = queue.pass.epoch,
                            .fingerprint = message.immediate};
  reply(connection, header, answer, output);
}

void MessageAggregator::reply(Connection& connection, const wire::Header& header, const Answer& answer,
                              Output& output) {
  MessageJob& job = *connection.job;
  switch (answer.effect) {
    case Effect::kCompleted:
      for (const auto& worker : job.connections()) {
        if (worker) send_result(*worker, answer.result, output);
      }
      return;
    case Effect::kResultAgain: return send_result(connection, answer.result, output);
    case Effect::kPending:
      return send_notice(connection, pending_notice(header, *answer.seen, job.spec().shape.workers()), header.slot,
                         output);
    case Effect::kAhead:
      return send_notice(connection, refused_notice(header, wire::Refusal::kAhead), header.slot, output);
    case Effect::kMismatch: return end(job, mismatch_between(answer.other, header.worker), output);
    case Effect::kEnded: return tell_ended(connection, output);
    case Effect::kCounted:
    case Effect::kRejected: return;
  }
}

void MessageAggregator::send_result(Connection& connection, const ResultView& result, Output& output) {
  const MessageLayout& layout = connection.job->layout();
  const roce::Write write{
      .peer = connection.peer,
      .qpn = connection.remote.qpns[result.slot],
      .rkey = connection.remote.rkey,
      .address = connection.remote.memory + layout.result_place(result.slot, result.epoch),
      .immediate = result.fingerprint,
      .head = {reinterpret_cast<const std::uint8_t*>(result.words.data()), result.words.size_bytes()},
      .tail = {result.exponents.data(), wire::padded(result.exponents.size())}};
  count_sent(connection, write.size());
  output.send(write, connection.mtu, connection.queues[result.slot].psn);
}

void MessageAggregator::send_notice(Connection& connection, const Notice& notice, std::uint32_t slot, Output& output) {
  const MessageLayout& layout = connection.job->layout();
  const bool last = slot == MessageLayout::kLastNotice;
  const roce::Write write{
      .peer = connection.peer,
      .qpn = connection.remote.qpns[layout.notices()],
      .rkey = connection.remote.rkey,
      .address = connection.remote.memory + (last ? layout.last_notice_place() : layout.notice_place(slot)),
      .immediate = slot,
      .head = notice.packet(),
      .tail = {}};
  count_sent(connection, write.size());
  output.send(write, connection.mtu, connection.queues[layout.notices()].psn);
}

void MessageAggregator::count_sent(Connection& connection, std::size_t bytes) {
  Counters& counters = connection.job->aggregator().counters();
  ++counters[Counter::kPacketsSent];
  counters[Counter::kBytesSent] += bytes;
}

void MessageAggregator::tell_ended(Connection& connection, Output& output) {
  const JobSpec& spec = connection.job->spec();
  const Status& reason = connection.job->aggregator().ended();
  send_notice(connection, aborted_notice(spec.job, spec.secret, 0, reason), MessageLayout::kLastNotice, output);
}

void MessageAggregator::end(MessageJob& job, const Status& reason, Output& output) {
  job.aggregator().end(reason);
  for (const auto& worker : job.connections()) {
    if (worker) tell_ended(*worker, output);
  }
}

void MessageAggregator::abort(std::uint32_t id, const Status& reason, Output& output) {
  MessageJob* job = find(id);
  if (job != nullptr && job->aggregator().ended().ok()) end(*job, reason, output);
}

}  // namespace jaxina
