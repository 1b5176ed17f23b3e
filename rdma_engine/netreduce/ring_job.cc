#include "rdma_engine/netreduce/ring_job.h"

#include <algorithm>

#include "rdma_engine/wire/psn.h"

namespace jaxina::netreduce {
namespace {

// How far ahead of a packet's number that of the empty write in its place is. The receiver takes it for a packet behind
// a gap, unless it is late by so many packets.
constexpr std::uint32_t kFarAhead = 1u << 22;

// A message's last packet has the immediate, which ends the headers, and now says what the switch has done.
void mark(std::span<std::uint8_t> headers, roce::RingKind kind) {
  if (!roce::has_immediate(static_cast<roce::Opcode>(headers[roce::kBthAt]))) return;
  headers[headers.size() - 2] |= static_cast<std::uint8_t>(roce::bits_of(kind) >> 8);
  headers[headers.size() - 1] |= static_cast<std::uint8_t>(roce::bits_of(kind) & 0xff);
}

const RingSpec& checked(const RingSpec& spec) {
  spec.check();
  return spec;
}

}  // namespace

RingJob::RingJob(const RingSpec& spec)
    : spec_(checked(spec)),
      layout_(spec.layout()),
      sums_(spec),
      frame_(roce::kMaxFrameHeaders + spec.mtu + roce::kIcrcSize) {
  for (const RingMember& member : spec.members) {
    connections_.push_back(std::make_unique<Connection>(member, spec.shape.slots()));
  }
}

void RingJob::on_packet(std::uint32_t worker, const roce::RoceFrame& frame, std::uint16_t egress, FrameOutput& output) {
  JAXINA_ASSERT(!ended_ && worker < connections_.size());
  Connection& connection = *connections_[worker];
  const std::uint32_t psn = frame.packet.headers.psn;
  const SequenceTracker::Place place = connection.tracker.place_of(psn);
  switch (place.kind) {
    case SequenceTracker::Kind::kNext: return take(worker, place.number, frame, egress, output);
    case SequenceTracker::Kind::kHeld: {
      // The latest copy's headers count: it may ask for an acknowledgement, or have a mark.
      HeldPacket& held = connection.held.at(place.number - connection.tracker.released());
      if (frame.headers.size() == held.size) held.keep(frame.headers, egress);
      ++counters_[Counter::kDuplicates];
      return;
    }
    case SequenceTracker::Kind::kReleased: return take_again(worker, place.number, frame, egress, output);
    case SequenceTracker::Kind::kAhead:
      send_empty(worker, roce::psn_after(psn, kFarAhead), frame, egress, output);
      break;
    case SequenceTracker::Kind::kBefore: break;
  }
  ++counters_[Counter::kRdmaOutOfSequence];
}

void RingJob::take(std::uint32_t worker, std::uint64_t number, const roce::RoceFrame& frame, std::uint16_t egress,
                   FrameOutput& output) {
  Connection& connection = *connections_[worker];
  const roce::Headers& headers = frame.packet.headers;
  if (connection.held.is_full()) {  // it comes again
    ++counters_[Counter::kRdmaOutOfSequence];
    return;
  }
  const bool begins = number == connection.next_message;
  if (!roce::is_write(headers.opcode) || roce::begins_message(headers.opcode) != begins) {
    return end(Counter::kRdmaMalformed);
  }
  if (begins && !begin_message(worker, number, headers)) return end(Counter::kRdmaNoAccess);
  const RingMessage* message = connection.messages.find(number);
  if (message == nullptr || !is_part(*message, number, frame.packet)) return end(Counter::kRdmaBadLength);
  const auto index = static_cast<std::uint32_t>(number - message->first);
  const BlockSums::Added added = sums_.add(worker, *message, index, frame.packet.payload);
  if (added == BlockSums::Added::kContradicts) return end(Counter::kMismatch);
  HeldPacket& held = connection.held.add();
  held.block = {message->slot, message->epoch, index};
  held.keep(frame.headers, egress);
  connection.tracker.take();
  const bool is_last = index + 1 == message->packets;
  if (is_last) ++counters_[Counter::kUpdates];
  if (added != BlockSums::Added::kCompleted) return;
  if (is_last) ++counters_[Counter::kResults];
  for (const auto& waiting : connections_) release(*waiting, output);
}

void RingJob::take_again(std::uint32_t worker, std::uint64_t number, const roce::RoceFrame& frame, std::uint16_t egress,
                         FrameOutput& output) {
  ++counters_[Counter::kDuplicates];
  const RingMessage* message = connections_[worker]->messages.find(number);
  if (message == nullptr) return send_empty(worker, frame.packet.headers.psn, frame, egress, output);
  if (!is_part(*message, number, frame.packet)) return;  // not a copy of what was taken
  const BlockName block{message->slot, message->epoch, static_cast<std::uint32_t>(number - message->first)};
  if (!sums_.has(block)) return send_empty(worker, frame.packet.headers.psn, frame, egress, output);
  send_sum(frame.headers, block, egress, output);
}

// Notes the message that begins with these headers. Returns false if it is not one of the job's.
bool RingJob::begin_message(std::uint32_t worker, std::uint64_t number, const roce::Headers& headers) {
  Connection& connection = *connections_[worker];
  const RingMember& member = spec_.members[worker];
  const std::uint64_t offset = headers.address - member.memory, place = offset / layout_.stride();
  if (headers.rkey != member.rkey || headers.address < member.memory ||
      place >= std::uint64_t{spec_.shape.slots()} * roce::MessageLayout::kPlaces) {
    return false;
  }
  const std::size_t begins = offset % layout_.stride(), exponents_at = layout_.exponents_in_place();
  const std::size_t end = begins + headers.length;
  if (begins % 4 != 0 || headers.length % 4 != 0 || headers.length == 0 || begins > exponents_at ||
      end < exponents_at || end > layout_.largest()) {
    return false;
  }
  const auto slot = static_cast<std::uint16_t>(place / roce::MessageLayout::kPlaces);
  const std::uint32_t epoch = connection.next_epoch[slot];
  if (epoch % roce::MessageLayout::kPlaces != place % roce::MessageLayout::kPlaces) return false;
  ++connection.next_epoch[slot];
  const std::uint64_t packets = roce::packets_of(headers.length, spec_.mtu);
  connection.next_message = number + packets;
  connection.messages.add({.first = number,
                           .packets = packets,
                           .slot = slot,
                           .epoch = epoch,
                           .begins_in_place = static_cast<std::uint32_t>(begins),
                           .length = headers.length});
  return true;
}

bool RingJob::is_part(const RingMessage& message, std::uint64_t number, const roce::Packet& packet) const {
  const roce::Headers& h = packet.headers;
  const std::uint64_t index = number - message.first;
  const bool begins = index == 0, ends = index + 1 == message.packets;
  const std::size_t size = ends ? message.length - index * spec_.mtu : spec_.mtu;
  return h.opcode == roce::write_opcode(roce::Service::kReliable, begins, ends, true) &&
         (!begins || h.length == message.length) && h.pad == 0 && packet.payload.size() == size;
}

// Lets go what waits at the head of the connection and has its sum.
void RingJob::release(Connection& connection, FrameOutput& output) {
  while (!connection.held.is_empty()) {
    const HeldPacket& first = connection.held.at(0);
    if (!sums_.has(first.block)) return;
    send_sum({first.headers.data(), first.size}, first.block, first.egress, output);
    connection.held.pop();
    connection.tracker.release();
  }
}

void RingJob::send_sum(std::span<const std::uint8_t> headers, const BlockName& block, std::uint16_t egress,
                       FrameOutput& output) {
  const std::span<const std::uint8_t> sum = sums_.sum(block);
  std::copy(headers.begin(), headers.end(), frame_.begin());
  mark({frame_.data(), headers.size()}, roce::RingKind::kSummed);
  std::copy(sum.begin(), sum.end(), frame_.begin() + static_cast<std::ptrdiff_t>(headers.size()));
  const std::size_t size = roce::finish_frame(frame_.data(), headers.size() + sum.size());
  output.send(egress, {frame_.data(), size});
}

void RingJob::send_empty(std::uint32_t worker, std::uint32_t psn, const roce::RoceFrame& like, std::uint16_t egress,
                         FrameOutput& output) {
  const roce::Headers& h = like.packet.headers;
  const roce::Headers headers{.opcode = roce::Opcode::kRcWriteOnly,
                              .migration = h.migration,
                              .partition = h.partition,
                              .qpn = h.qpn,
                              .acknowledge = true,
                              .psn = psn,
                              .address = spec_.members[worker].memory,
                              .rkey = spec_.members[worker].rkey,
                              .length = 0};
  std::copy_n(like.headers.begin(), roce::kBthAt, frame_.begin());
  roce::write(headers, &frame_[roce::kBthAt]);
  const std::size_t size = roce::finish_frame(frame_.data(), roce::kBthAt + roce::header_size(headers.opcode));
  output.send(egress, {frame_.data(), size});
}

void RingJob::pass_on(const roce::RoceFrame& frame, std::uint16_t egress, FrameOutput& output) {
  JAXINA_ASSERT(ended_);
  const std::size_t size = roce::kBthAt + frame.covered.size();
  if (size + roce::kIcrcSize > frame_.size()) return;  // no worker of the job sends such a frame
  std::copy_n(frame.headers.data(), size, frame_.begin());
  mark({frame_.data(), frame.headers.size()}, roce::RingKind::kContradicted);
  output.send(egress, {frame_.data(), roce::finish_frame(frame_.data(), size)});
}

void RingJob::end(Counter reason) {
  ++counters_[reason];
  ended_ = true;
}

}  // namespace jaxina::netreduce
