#include "rdma_engine/messages/message_session.h"

#include <algorithm>
#include <cstring>

#include "rdma_engine/base/assert.h"
#include "rdma_engine/messages/result_check.h"

namespace jaxina::roce {
namespace {

// How many copies of a pass in a row may bring neither a result nor a notice before its queue pair is reset. Soft-RoCE
// accepts nothing on a queue pair that lost the end of a message until it is reset. But a reset loses what is on the
// way, so it must not come too early.
constexpr std::uint32_t kUnansweredUntilReset = 2;

// Which of the queue pairs' memory devices may use. If messages carry a check, results are copied before they are
// checked, so they are not used in place. And the processor must read the words to write the check, so they cannot be
// in a device's own memory.
TransportMemory memory_of(MessageQueues& pairs, const MessageLayout& layout) {
  TransportMemory memory{
      .results = {}, .messages = std::as_writable_bytes(pairs.send_memory()), .stride = layout.stride()};
  if (layout.check_words() > 0) return memory;
  memory.results = std::as_bytes(pairs.receive_memory());
  memory.adopt = [&pairs](const auto& allocate) { return pairs.adopt(allocate); };
  return memory;
}

}  // namespace

MessageSession::MessageSession(const MessageSessionConfig& config, MessageQueues& pairs)
    : config_(config),
      layout_(config.shape, config.summed),
      pairs_(pairs),
      worker_({.shape = config.shape,
               .timer = config.timer,
               .memory = memory_of(pairs, layout_),
               .index = config.worker,
               .packing = config.summed == Summed::kByMessage ? Packing::kPacked : Packing::kNone}),
      passes_(config.shape.slots()),
      unanswered_(config.shape.slots()),
      copy_(config.shape.words_per_pass()),
      exponents_(config.shape.exponents_per_pass()) {}

std::uint8_t* MessageSession::message(std::size_t slot) {
  return pairs_.send_memory().data() + slot * layout_.stride();
}

const std::uint8_t* MessageSession::result_at(const Pass& pass) const {
  return pairs_.receive_memory().data() + layout_.result_place(pass.slot, pass.epoch) + layout_.begins_in_place(pass);
}

Status MessageSession::post_next(Nanoseconds now, std::optional<Pass>& posted) {
  posted = worker_.next_pass(now);
  if (!posted) return {};
  const Pass& pass = *posted;
  // The buffer may still be read for an earlier copy of this slot's last pass; docs/rdma.md says why that is harmless.
  // A device may already have written this pass's words into it.
  std::uint8_t* out = message(pass.slot);
  const std::size_t size = layout_.bytes(pass), words = 4 * std::size_t{pass.words};
  const std::uint32_t* on_device = worker_.words_on_device(pass);
  if (!on_device) worker_.fill_words(pass, reinterpret_cast<std::uint32_t*>(out), numerics::Store::kBigEndian);
  std::memset(out + words, 0, size - words);
  if (layout_.check_words() > 0) write_check(pass, out);
  worker_.fill_exponents(pass, out + layout_.exponents_at(pass), false);
  passes_[pass.slot] = pass;
  unanswered_[pass.slot] = pass.retransmission() ? unanswered_[pass.slot] + 1 : 0;
  if (unanswered_[pass.slot] == kUnansweredUntilReset) {
    unanswered_[pass.slot] = 0;
    if (Status status = pairs_.reset(pass.slot); !status.ok()) return status;
  }
  const std::size_t of_device = on_device ? words : 0;
  const std::span<const std::uint8_t> here(out + of_device, size - of_device);
  const std::span<const std::uint8_t> there(reinterpret_cast<const std::uint8_t*>(on_device), of_device);
  pairs_.post_write(pass.slot, on_device ? there : here, on_device ? here : there,
                    address_of({pass.epoch, pass.slot, pass.exponents, pass.format}), pass.fingerprint);
  return {};
}

void MessageSession::write_check(const Pass& pass, std::uint8_t* out) {
  numerics::codec().load_big_endian(reinterpret_cast<const std::uint32_t*>(out), pass.words, copy_.data());
  ResultCheck::of(copy_.data(), pass.words, pass.fingerprint, pass.epoch, 1)
      .write(reinterpret_cast<std::uint32_t*>(out) + layout_.words(pass));
}

// Copies the result's words and exponents to memory that nothing can overwrite, then verifies the check. Returns
// whether they are the pass's. Words of 32 bits are copied to host order.
bool MessageSession::copy_checked(const Pass& pass, Result& result) {
  const std::uint32_t* words = result.word_data;
  std::copy_n(result.exponent_data, pass.exponents, exponents_.data());
  numerics::codec().load_big_endian(words, pass.words, copy_.data());
  ResultCheck expected =
      ResultCheck::of(copy_.data(), pass.words, pass.fingerprint, pass.epoch, config_.shape.workers());
  if (layout_.is_sealed()) expected = expected.with({exponents_.data(), pass.exponents});
  const bool intact = ResultCheck::read(words + layout_.words(pass)) == expected;
  if (pass.format != wire::Format::kInt32) {
    numerics::codec().encode_int32(copy_.data(), pass.words, numerics::Store::kBigEndian, copy_.data());
  }
  result.word_data = copy_.data();
  result.order = numerics::Order::kHost;
  result.exponent_data = exponents_.data();
  return intact;
}

MessageSession::Arrived MessageSession::on_arrival(const MessageQueues::Arrival& arrival, Nanoseconds now) {
  return arrival.queue == layout_.notices() ? on_notice(arrival, now) : on_result(arrival, now);
}

MessageSession::Arrived MessageSession::on_result(const MessageQueues::Arrival& arrival, Nanoseconds now) {
  if (arrival.queue >= passes_.size()) return {Kind::kOtherPass};
  if (!is_of_latest_pass(arrival)) return {Kind::kOtherPass};
  const Pass& pass = passes_[arrival.queue];
  const std::uint8_t* in = result_at(pass);
  Result result{.slot = pass.slot,
                .epoch = pass.epoch,
                .fingerprint = pass.fingerprint,
                .words = pass.words,
                .exponents = pass.exponents,
                .word_data = reinterpret_cast<const std::uint32_t*>(in),
                .exponent_data = in + layout_.exponents_at(pass),
                .order = numerics::Order::kBigEndian,
                .format = pass.format};
  // A damaged result counts as lost: the worker asks again.
  if (layout_.check_words() > 0 && !copy_checked(pass, result)) return {};
  return {worker_.on_result(result, now) == ResultVerdict::kAccepted ? Kind::kResult : Kind::kRejected};
}

bool MessageSession::is_of_latest_pass(const MessageQueues::Arrival& arrival) const {
  const Pass& pass = passes_[arrival.queue];
  const std::uint32_t different = (arrival.immediate ^ pass.fingerprint) & layout_.fingerprint_bits();
  return different == 0 && arrival.bytes == layout_.bytes(pass);
}

std::optional<std::uint32_t> MessageSession::contributions(const MessageQueues::Arrival& arrival) {
  JAXINA_ASSERT(is_of_latest_pass(arrival) && !layout_.is_sealed());
  const Pass& pass = passes_[arrival.queue];
  const auto* words = reinterpret_cast<const std::uint32_t*>(result_at(pass));
  numerics::codec().load_big_endian(words, pass.words, copy_.data());
  return ResultCheck::read(words + layout_.words(pass))
      .contributions(copy_.data(), pass.words, pass.fingerprint, pass.epoch, config_.shape.workers());
}

MessageSession::Arrived MessageSession::on_notice(const MessageQueues::Arrival& arrival, Nanoseconds now) {
  const bool last = arrival.immediate == MessageLayout::kLastNotice;
  const std::size_t room = last ? MessageLayout::kLastNoticeSize : MessageLayout::kNoticeSize;
  if ((!last && arrival.immediate >= config_.shape.slots()) || arrival.bytes > room) return {};
  const std::size_t place = last ? layout_.last_notice_place() : layout_.notice_place(arrival.immediate);
  const std::span<const std::uint8_t> packet = pairs_.receive_memory().subspan(place, arrival.bytes);
  Arrived arrived;
  if (wire::parse(packet, arrived.header) != wire::ParseResult::kOk || arrived.header.job != config_.job ||
      arrived.header.secret != config_.secret || arrived.header.slot >= config_.shape.slots()) {
    return {};
  }
  arrived.payload = packet.subspan(wire::kHeaderSize);
  switch (arrived.header.kind) {
    case wire::Kind::kPending:
      worker_.on_pending(arrived.header.slot, arrived.header.epoch, now);
      unanswered_[arrived.header.slot] = 0;
      arrived.kind = Kind::kPending;
      break;
    case wire::Kind::kRefused: arrived.kind = Kind::kRefused; break;
    case wire::Kind::kCombined: break;
    case wire::Kind::kAbort: arrived.kind = Kind::kAborted; break;
    case wire::Kind::kUpdate:
    case wire::Kind::kResult: break;
  }
  return arrived;
}

}  // namespace jaxina::roce
