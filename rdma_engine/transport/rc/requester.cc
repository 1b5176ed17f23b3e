#include "rdma_engine/transport/rc/requester.h"

#include <algorithm>

#include "rdma_engine/base/assert.h"
#include "rdma_engine/errors.h"
#include "rdma_engine/messages/queue_pairs.h"

namespace jaxina::rc {
namespace {

constexpr std::uint32_t kMostDoublings = 4;

CompletionStatus status_of(roce::Answer answer) {
  switch (answer) {
    case roce::Answer::kRemoteAccess: return CompletionStatus::kRemoteAccess;
    case roce::Answer::kRemoteOperation: return CompletionStatus::kRemoteOperation;
    default: return CompletionStatus::kRemoteInvalidRequest;
  }
}

}  // namespace

std::string_view to_string(CompletionStatus status) {
  switch (status) {
    case CompletionStatus::kSuccess: return "success";
    case CompletionStatus::kRetriesExceeded: return "transport retry counter exceeded";
    case CompletionStatus::kRnrRetriesExceeded: return "RNR retry counter exceeded";
    case CompletionStatus::kRemoteInvalidRequest: return "remote invalid request error";
    case CompletionStatus::kRemoteAccess: return "remote access error";
    case CompletionStatus::kRemoteOperation: return "remote operation error";
    case CompletionStatus::kFlushed: return "flushed, because the connection has ended";
  }
  return "unknown";
}

Requester::Requester(const RequesterConfig& config)
    : config_(config), messages_(config.queue), completions_(config.queue) {
  const bool valid = config.mtu > 0 && config.mtu % 4 == 0 && config.timeout >= 1 &&
                     config.timeout <= kMaxTimeoutCode && config.queue > 0 && config.window > 0 &&
                     config.window <= kMaxUnacknowledged && config.remote_qpn <= roce::kMask24 &&
                     config.first_psn <= roce::kMask24;
  if (!valid) {
    throw Error(
        ErrorCode::kInvalidArgument,
        "a reliable queue pair needs an MTU that is a multiple of 4, a timeout code of 1 to 31, a window of 1 to " +
            std::to_string(kMaxUnacknowledged) + " packets, room for a message, and numbers of 24 bits");
  }
}

bool Requester::post(const Request& request) {
  if (count_ + completion_count_ == messages_.size()) return false;
  Message& added = message(count_++);
  added = {request, posted_, posted_ + roce::packets_of(request.write.size(), config_.mtu)};
  posted_ = added.end;
  if (ended_) complete_front(CompletionStatus::kFlushed);
  return true;
}

const Requester::Message& Requester::message_of(std::uint64_t number) const {
  for (std::size_t i = 0; i < count_; ++i) {
    const Message& candidate = messages_[(front_ + i) % messages_.size()];
    if (number < candidate.end) return candidate;
  }
  JAXINA_ASSERT(!"a packet belongs to no message");
  __builtin_unreachable();
}

std::optional<Requester::Outgoing> Requester::next_packet(Nanoseconds now) {
  if (ended_ || next_ == posted_ || next_ - acknowledged_ >= config_.window) return std::nullopt;
  if (ready_at_ && now < *ready_at_) return std::nullopt;
  ready_at_.reset();
  const std::uint64_t number = next_++;
  const Message& of = message_of(number);
  const roce::Write& write = of.request.write;
  Outgoing packet{.headers = {}, .request = of.request};
  packet.offset = (number - of.first) * config_.mtu;
  packet.size = std::min(config_.mtu, write.size() - packet.offset);
  const bool begins = number == of.first, ends = number + 1 == of.end;
  packet.headers = {.opcode = roce::write_opcode(roce::Service::kReliable, begins, ends, of.request.has_immediate),
                    .pad = static_cast<std::uint8_t>(wire::padded(packet.size) - packet.size),
                    .qpn = config_.remote_qpn,
                    // Without an answer a full window would wait for its timeout.
                    .acknowledge = ends || next_ - acknowledged_ == config_.window,
                    .psn = psn(number)};
  if (begins) {
    packet.headers.address = write.address;
    packet.headers.rkey = write.rkey;
    packet.headers.length = narrow<std::uint32_t>(write.size());
  }
  if (ends && of.request.has_immediate) packet.headers.immediate = write.immediate;
  packet.repeated = number < sent_;
  retransmissions_ += packet.repeated;
  sent_ = std::max(sent_, next_);
  if (!deadline_) arm(now);
  return packet;
}

std::optional<std::uint64_t> Requester::number_of(std::uint32_t answered) const {
  const std::int32_t distance = roce::psn_distance(psn(acknowledged_), answered);
  if (distance < 0 || static_cast<std::uint64_t>(distance) > sent_ - acknowledged_) return std::nullopt;
  return acknowledged_ + static_cast<std::uint64_t>(distance);
}

void Requester::on_answer(const roce::Headers& answer, Nanoseconds now) {
  const roce::Syndrome syndrome = roce::decode_syndrome(answer.syndrome);
  const std::optional<std::uint64_t> number = number_of(answer.psn);
  // An answer may be late, or damaged: what it names must be outstanding. A gap may also begin behind all that was
  // sent.
  if (ended_ || !number || syndrome.answer == roce::Answer::kReserved) return;
  const bool is_gap = syndrome.answer == roce::Answer::kSequenceError;
  if (*number == sent_ && !is_gap) return;
  advance(syndrome.answer == roce::Answer::kAck ? *number + 1 : *number, now);
  switch (syndrome.answer) {
    case roce::Answer::kAck: return;
    case roce::Answer::kSequenceError: return go_back(*number, now);
    case roce::Answer::kRnrNak:
      if (config_.rnr_retries && rnr_failures_ == *config_.rnr_retries)
        return end(CompletionStatus::kRnrRetriesExceeded);
      ++rnr_failures_;
      next_ = *number;
      deadline_.reset();
      ready_at_ = now + roce::rnr_delay(syndrome.value);
      return;
    default: return end(status_of(syndrome.answer));
  }
}

void Requester::advance(std::uint64_t acknowledged, Nanoseconds now) {
  if (acknowledged == acknowledged_) return;
  JAXINA_ASSERT(acknowledged > acknowledged_ && acknowledged <= sent_);
  acknowledged_ = acknowledged;
  next_ = std::max(next_, acknowledged);
  failures_ = rnr_failures_ = timeouts_ = 0;
  ready_at_.reset();
  deadline_.reset();
  if (acknowledged_ < sent_) arm(now);
  while (count_ > 0 && message(0).end <= acknowledged_) complete_front(CompletionStatus::kSuccess);
}

void Requester::go_back(std::uint64_t number, Nanoseconds now) {
  if (number == sent_) return;  // nothing is missing
  if (config_.retries && failures_ == *config_.retries) return end(CompletionStatus::kRetriesExceeded);
  ++failures_;
  next_ = number;
  arm(now);
}

void Requester::on_tick(Nanoseconds now) {
  if (ended_ || !deadline_ || now < *deadline_) return;
  ++timeouts_;
  go_back(acknowledged_, now);
}

std::optional<Nanoseconds> Requester::next_deadline() const {
  if (ended_) return std::nullopt;
  return ready_at_ ? ready_at_ : deadline_;
}

// Silence mostly means that packets wait at a switch for a late worker. Copies then only cost time. But with a limit to
// the retries, these set when the connection ends.
void Requester::arm(Nanoseconds now) {
  const std::uint32_t doublings = config_.retries ? 0 : std::min(timeouts_, kMostDoublings);
  deadline_ = now + (ack_timeout(config_.timeout) << doublings);
}

void Requester::end(CompletionStatus status) {
  ended_ = true;
  deadline_.reset();
  ready_at_.reset();
  while (count_ > 0) {
    complete_front(status);
    status = CompletionStatus::kFlushed;
  }
}

void Requester::complete_front(CompletionStatus status) {
  const std::size_t at = (first_completion_ + completion_count_++) % completions_.size();
  completions_[at] = {message(0).request.id, status};
  front_ = (front_ + 1) % messages_.size();
  --count_;
}

std::optional<Completion> Requester::pop_completion() {
  if (completion_count_ == 0) return std::nullopt;
  const Completion completion = completions_[first_completion_];
  first_completion_ = (first_completion_ + 1) % completions_.size();
  --completion_count_;
  return completion;
}

}  // namespace jaxina::rc
