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

bool is_empty_write(const roce::Packet& packet) {
  return packet.headers.opcode == roce::Opcode::kRcWriteOnly && packet.payload.empty();
}

// Only the last packet of a message can say that it is not.
bool is_summed(const roce::Headers& headers) {
  return !roce::has_immediate(headers.opcode) || roce::ring_kind_of(headers.immediate) == roce::RingKind::kSummed;
}

std::span<const std::uint8_t> whole(const roce::RoceFrame& frame) {
  return {frame.headers.data(), roce::kBthAt + frame.covered.size() + roce::kIcrcSize};
}

RingSpec checked(RingSpec spec) {
  spec.check();
  return spec;
}

}  // namespace

RingJob::RingJob(const RingSpec& spec)
    : spec_(checked(spec)),
      layout_(spec.layout()),
      sums_(spec, spec.members.size()),
      frame_(roce::kMaxFrameHeaders + spec.mtu + roce::kIcrcSize) {
  const bool is_spine = is(Position::kSpine), is_leaf = is(Position::kLeaf);
  const auto add = [&](const RingMember& member, bool comes_from_switch, bool goes_to_switch) {
    connections_.push_back(std::make_unique<Connection>(member, spec.shape.slots(), comes_from_switch, goes_to_switch));
  };
  for (const RingMember& member : spec_.members) {
    const bool is_last = &member == &spec_.members.back();
    add(member, is_spine, is_spine || (is_leaf && is_last));
  }
  if (!is_leaf) return;
  add(*spec_.from_above, true, false);
  totals_.emplace(spec, 1);
}

std::size_t RingJob::bytes_for(const RingSpec& spec) {
  const std::size_t slots = spec.shape.slots();
  const std::size_t connection = sizeof(Connection) + MessageRing::bytes_for(slots) + slots * sizeof(std::uint32_t);
  const std::size_t connections = spec.members.size() + (spec.from_above ? 1 : 0);
  const std::size_t sums = BlockSums::bytes_for(spec) * (spec.position == Position::kLeaf ? 2 : 1);
  return sizeof(RingJob) + connections * (connection + sizeof(RingMember)) + sums;
}

bool RingJob::begins(std::uint32_t member, const roce::RoceFrame& frame) const {
  const std::optional<RingMessage> message = message_at(*connections_[member], 0, frame.packet.headers);
  return message && is_part(*message, 0, frame.packet) && frame.is_intact();
}

void RingJob::on_packet(std::uint32_t member, const roce::RoceFrame& frame, std::uint16_t egress, FrameOutput& output) {
  JAXINA_ASSERT(!ended_ && member < connections_.size());
  Connection& connection = *connections_[member];
  const std::uint32_t psn = frame.packet.headers.psn;
  const SequenceTracker::Place place = connection.tracker.place_of(psn);
  if (connection.comes_from_switch && is_empty_write(frame.packet)) {
    return on_empty(connection, place, frame, egress, output);
  }
  const std::uint64_t distance = place.number - connection.tracker.released();
  switch (place.kind) {
    case SequenceTracker::Kind::kNext: return take(connection, member, place.number, frame, egress, output);
    case SequenceTracker::Kind::kHeld: return on_held(connection, distance, frame, egress, output);
    case SequenceTracker::Kind::kReleased: return take_again(connection, place.number, frame, egress, output);
    case SequenceTracker::Kind::kAhead:
      if (connection.comes_from_switch) {
        if (!HeldPackets::has_room(distance)) break;
        if (connection.held.at(distance).is_taken) return on_held(connection, distance, frame, egress, output);
        return take(connection, member, place.number, frame, egress, output);
      }
      send_empty(connection.member, roce::psn_after(psn, kFarAhead), frame, egress, output);
      break;
    case SequenceTracker::Kind::kBefore: break;
  }
  ++counters_[Counter::kRdmaOutOfSequence];
}

// A copy of a packet that waits. The latest copy's headers count: it may ask for an acknowledgement, or have a mark.
void RingJob::on_held(Connection& connection, std::uint64_t distance, const roce::RoceFrame& frame,
                      std::uint16_t egress, FrameOutput& output) {
  ++counters_[Counter::kDuplicates];
  HeldPacket& held = connection.held.at(distance);
  if (frame.headers.size() != held.size) return;
  held.keep(frame.headers, egress);
  // It may be lost on its way to the next switch.
  const BlockSums& sums = awaited(connection);
  if (held.is_sent && sums.has(held.block)) send_sum(sums, frame.headers, held.block, egress, output);
}

// An empty write of another switch of the job: its receiver has the packet, or is to name what it misses.
void RingJob::on_empty(const Connection& connection, const SequenceTracker::Place& place, const roce::RoceFrame& frame,
                       std::uint16_t egress, FrameOutput& output) {
  const bool is_far =
      place.kind == SequenceTracker::Kind::kAhead && place.number - connection.tracker.taken() >= kFarAhead;
  if (is_far || place.kind == SequenceTracker::Kind::kReleased) return output.send(egress, whole(frame));
  ++counters_[Counter::kRdmaOutOfSequence];
}

void RingJob::take(Connection& connection, std::uint32_t member, std::uint64_t number, const roce::RoceFrame& frame,
                   std::uint16_t egress, FrameOutput& output) {
  const std::uint64_t distance = number - connection.tracker.released();
  if (!HeldPackets::has_room(distance)) {  // it comes again
    ++counters_[Counter::kRdmaOutOfSequence];
    return;
  }
  const RingMessage* message = message_of(connection, number, frame);
  const auto ask_for_missing = [&] {
    const std::uint32_t psn = roce::psn_after(frame.packet.headers.psn, kFarAhead);
    send_empty(connection.member, psn, frame, egress, output);
  };
  if (message == nullptr) {
    if (!ended_) ask_for_missing();  // the message's first packet
    return;
  }
  const auto index = static_cast<std::uint32_t>(number - message->first);
  const bool is_total = member == spec_.members.size();
  // A total holds this rack's sum. If that is not complete, or if nobody has summed it, the spine has lost the job.
  if (is_total && !(is_summed(frame.packet.headers) && sums_.has(*message, index))) {
    return end(Counter::kStale, roce::RingKind::kAsSent);
  }
  const BlockSums::Added added = is_total ? totals_->add(0, *message, index, frame.packet.payload)
                                          : sums_.add(member, *message, index, frame.packet.payload);
  if (added == BlockSums::Added::kContradicts) return end(Counter::kMismatch, roce::RingKind::kContradicted);
  // Another switch keeps the order of a message's packets.
  if (index > 0 && distance > 0 && !connection.held.at(distance - 1).is_taken) ask_for_missing();
  HeldPacket& held = connection.held.at(distance);
  held.block = {message->slot, message->epoch, index};
  held.keep(frame.headers, egress);
  held.is_taken = true;
  for (std::uint64_t next = connection.tracker.held(); HeldPackets::has_room(next) && connection.held.at(next).is_taken;
       ++next) {
    connection.tracker.take();
  }
  const bool is_last = index + 1 == message->packets;
  if (is_last && !connection.comes_from_switch) ++counters_[Counter::kUpdates];
  if (added != BlockSums::Added::kCompleted) return;
  if (is_last && !is(Position::kLeaf)) ++counters_[Counter::kResults];
  release_all(output);
}

void RingJob::take_again(Connection& connection, std::uint64_t number, const roce::RoceFrame& frame,
                         std::uint16_t egress, FrameOutput& output) {
  ++counters_[Counter::kDuplicates];
  const std::uint32_t psn = frame.packet.headers.psn;
  const RingMessage* message = connection.messages.find(number);
  if (message == nullptr) return send_empty(connection.member, psn, frame, egress, output);
  if (!is_part(*message, number, frame.packet)) return;  // not a copy of what was taken
  const BlockName block{message->slot, message->epoch, static_cast<std::uint32_t>(number - message->first)};
  const BlockSums& sums = awaited(connection);
  if (!sums.has(block)) return send_empty(connection.member, psn, frame, egress, output);
  send_sum(sums, frame.headers, block, egress, output);
}

// The message that has this packet, which comes for the first time; null if it is not known yet, or if the job has
// ended because no worker's message has such a packet.
const RingMessage* RingJob::message_of(Connection& connection, std::uint64_t number, const roce::RoceFrame& frame) {
  const roce::Headers& headers = frame.packet.headers;
  // What another switch of the job lets through is right, unless it has lost the job.
  const roce::RingKind wrong = connection.comes_from_switch ? roce::RingKind::kAsSent : roce::RingKind::kContradicted;
  const bool is_known = connection.messages.find(number) != nullptr;
  const bool begins =
      connection.comes_from_switch ? roce::begins_message(headers.opcode) : number == connection.next_message;
  if (!roce::is_write(headers.opcode) || roce::begins_message(headers.opcode) != begins || (begins && is_known)) {
    return end(Counter::kRdmaMalformed, wrong), nullptr;
  }
  if (!begins && !is_known && connection.comes_from_switch) {  // its message's first packet is lost
    ++counters_[Counter::kRdmaOutOfSequence];
    return nullptr;
  }
  if (roce::has_immediate(headers.opcode) && roce::ring_kind_of(headers.immediate) == roce::RingKind::kContradicted) {
    return end(Counter::kMismatch, roce::RingKind::kContradicted), nullptr;
  }
  if (begins) {
    const std::optional<RingMessage> begun = message_at(connection, number, headers);
    if (!begun) return end(Counter::kRdmaNoAccess, wrong), nullptr;
    ++connection.next_epoch[begun->slot];
    connection.next_message = number + begun->packets;
    connection.messages.add(*begun);
  }
  const RingMessage* message = connection.messages.find(number);
  if (message == nullptr || !is_part(*message, number, frame.packet)) {
    return end(Counter::kRdmaBadLength, wrong), nullptr;
  }
  return message;
}

// The message that begins with these headers; nothing if it is not the job's.
std::optional<RingMessage> RingJob::message_at(const Connection& connection, std::uint64_t number,
                                               const roce::Headers& headers) const {
  const RingMember& member = connection.member;
  const std::uint64_t offset = headers.address - member.memory, place = offset / layout_.stride();
  if (headers.rkey != member.rkey || headers.address < member.memory ||
      place >= std::uint64_t{spec_.shape.slots()} * roce::MessageLayout::kPlaces) {
    return std::nullopt;
  }
  const std::size_t begins = offset % layout_.stride(), exponents_at = layout_.exponents_in_place();
  const std::size_t end = begins + headers.length;
  if (begins % 4 != 0 || headers.length % 4 != 0 || headers.length == 0 || begins > exponents_at ||
      end < exponents_at || end > layout_.largest()) {
    return std::nullopt;
  }
  const auto slot = static_cast<std::uint16_t>(place / roce::MessageLayout::kPlaces);
  const std::uint32_t epoch = connection.next_epoch[slot];
  if (epoch % roce::MessageLayout::kPlaces != place % roce::MessageLayout::kPlaces) return std::nullopt;
  return RingMessage{.first = number,
                     .packets = roce::packets_of(headers.length, spec_.mtu),
                     .slot = slot,
                     .epoch = epoch,
                     .begins_in_place = static_cast<std::uint32_t>(begins),
                     .length = headers.length};
}

bool RingJob::is_part(const RingMessage& message, std::uint64_t number, const roce::Packet& packet) const {
  const roce::Headers& h = packet.headers;
  const std::uint64_t index = number - message.first;
  const bool begins = index == 0, ends = index + 1 == message.packets;
  const std::size_t size = ends ? message.length - index * spec_.mtu : spec_.mtu;
  return h.opcode == roce::write_opcode(roce::Service::kReliable, begins, ends, true) &&
         (!begins || h.length == message.length) && h.pad == 0 && packet.payload.size() == size;
}

void RingJob::release_all(FrameOutput& output) {
  for (const auto& connection : connections_) release(*connection, output);
}

// Lets go what has its sum and waits at the head of the connection. What goes to another switch need not be at the
// head: only at that of its message.
void RingJob::release(Connection& connection, FrameOutput& output) {
  const BlockSums& sums = awaited(connection);
  const auto send = [&](HeldPacket& held) {
    if (!held.is_sent) send_sum(sums, {held.headers.data(), held.size}, held.block, held.egress, output);
    held.is_sent = true;
  };
  for (std::uint64_t i = 0; connection.goes_to_switch && i < kMaxHeld; ++i) {
    HeldPacket& held = connection.held.at(i);
    const bool is_next = i == 0 || held.block.index == 0 || connection.held.at(i - 1).is_sent;
    if (held.is_taken && is_next && sums.has(held.block)) send(held);
  }
  while (connection.held.at(0).is_taken && (connection.held.at(0).is_sent || sums.has(connection.held.at(0).block))) {
    send(connection.held.at(0));
    connection.held.pop();
    connection.tracker.release();
  }
}

void RingJob::send_sum(const BlockSums& sums, std::span<const std::uint8_t> headers, const BlockName& block,
                       std::uint16_t egress, FrameOutput& output) {
  const std::span<const std::uint8_t> sum = sums.sum(block);
  std::copy(headers.begin(), headers.end(), frame_.begin());
  const bool is_total = !is(Position::kLeaf) || &sums != &sums_;
  if (is_total) mark({frame_.data(), headers.size()}, roce::RingKind::kSummed);
  std::copy(sum.begin(), sum.end(), frame_.begin() + static_cast<std::ptrdiff_t>(headers.size()));
  const std::size_t size = roce::finish_frame(frame_.data(), headers.size() + sum.size());
  output.send(egress, {frame_.data(), size});
}

void RingJob::send_empty(const RingMember& member, std::uint32_t psn, const roce::RoceFrame& like, std::uint16_t egress,
                         FrameOutput& output) {
  const roce::Headers& h = like.packet.headers;
  const roce::Headers headers{.opcode = roce::Opcode::kRcWriteOnly,
                              .migration = h.migration,
                              .partition = h.partition,
                              .qpn = h.qpn,
                              .acknowledge = true,
                              .psn = psn,
                              .address = member.memory,
                              .rkey = member.rkey,
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
  mark({frame_.data(), frame.headers.size()}, ended_as_);
  output.send(egress, {frame_.data(), roce::finish_frame(frame_.data(), size)});
}

void RingJob::end(Counter reason, roce::RingKind kind) {
  ++counters_[reason];
  ended_ = true;
  ended_as_ = kind;
}

}  // namespace jaxina::netreduce
