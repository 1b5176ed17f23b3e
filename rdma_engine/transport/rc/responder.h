// Responder: the receiving half of one queue pair of a reliable connection (RC). It executes writes in the order of
// their sequence numbers, each once, and answers. It is sans-IO and allocates nothing.
//
// The rules are those of the InfiniBand Architecture Specification, 9.7, for writes:
//   * A packet that it has already is answered with the last number that has arrived, and not executed.
//   * The first packet behind a gap is answered with a NAK that names the missing one. Until that one comes there is no
//     further NAK, so a lost one costs the sender's timeout.
//   * A write with an immediate takes a receive request at its last packet. If there is none, the answer is an RNR NAK.
//   * A packet that cannot be executed is answered with a NAK, and the connection has ended. It answers nothing more.
// Answers are coalesced: take_answer() gives the latest one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "rdma_engine/messages/write_responder.h"
#include "rdma_engine/wire/aeth.h"
#include "rdma_engine/wire/psn.h"

namespace jaxina::rc {

struct ResponderConfig {
  std::uint32_t remote_qpn = 0;
  std::uint32_t first_psn = 0;
  std::size_t mtu = 1024;
  std::uint8_t rnr_timer = 12;  // the code of an RNR NAK: roce::rnr_delay()
};

class Responder {
 public:
  explicit Responder(const ResponderConfig& config) : config_(config) {}

  // The sender may complete so many more writes with an immediate.
  void post_receives(std::uint32_t count) { receives_ += count; }

  // Processes one intact packet for this queue pair. `resolve(headers)` returns where the message may write
  // headers.length bytes, or nullptr if its key or its address allows none. It is called once per message, and not for
  // empty ones. Returns whether the packet completed a message, which message() has until the next packet.
  template <typename Resolve>
  bool on_request(const roce::Packet& packet, Resolve resolve) {
    if (ended_ || roce::is_acknowledge(packet.headers.opcode)) return false;
    const std::int32_t distance = roce::psn_distance(expected(), packet.headers.psn);
    if (distance < 0) return acknowledge(), false;
    if (distance > 0) return refuse_gap(), false;
    if (roce::has_immediate(packet.headers.opcode) && receives_ == 0) return refuse_not_ready(), false;
    if (!is_write_in_order(packet.headers.opcode)) return end(roce::Answer::kInvalidRequest), false;
    const auto place = [&](const roce::Headers& h) { return h.length == 0 ? &nothing_ : resolve(h); };
    switch (placer_.on_packet(packet, config_.mtu, place)) {
      case roce::Placement::kPlaced: return take(packet, false);
      case roce::Placement::kComplete: return take(packet, true);
      case roce::Placement::kNoAccess: return end(roce::Answer::kRemoteAccess), false;
      case roce::Placement::kOutOfSequence:
      case roce::Placement::kBadLength: break;
    }
    return end(roce::Answer::kInvalidRequest), false;
  }
  // The headers of the complete message's first packet, with the message's immediate if it has one.
  const roce::Headers& message() const { return placer_.message(); }
  bool has_immediate() const { return has_immediate_; }

  // The answer to send now, if any.
  std::optional<roce::Headers> take_answer() {
    if (!answer_) return std::nullopt;
    const roce::Headers headers{
        .opcode = roce::Opcode::kRcAcknowledge,
        .qpn = config_.remote_qpn,
        .psn = answer_->answer == roce::Answer::kAck ? roce::psn_after(config_.first_psn, received_ - 1) : expected(),
        .syndrome = roce::encode_syndrome(*answer_),
        .msn = static_cast<std::uint32_t>(messages_ & roce::kMask24)};
    answer_.reset();
    return headers;
  }

  bool has_ended() const { return ended_; }
  // Packets executed, counted from the first; messages completed.
  std::uint64_t received() const { return received_; }
  std::uint64_t messages() const { return messages_; }

 private:
  std::uint32_t expected() const { return roce::psn_after(config_.first_psn, received_); }
  bool is_write_in_order(roce::Opcode opcode) const {
    return roce::is_write(opcode) && roce::begins_message(opcode) == !is_inside_message_;
  }
  bool take(const roce::Packet& packet, bool completes) {
    ++received_;
    has_said_nak_ = false;
    is_inside_message_ = !completes;
    if (answer_ && answer_->answer != roce::Answer::kAck) answer_.reset();  // what it asked for has come
    if (packet.headers.acknowledge) acknowledge();
    if (!completes) return false;
    ++messages_;
    has_immediate_ = roce::has_immediate(packet.headers.opcode);
    if (has_immediate_) --receives_;
    return true;
  }
  // With received_ == 0 there is nothing to acknowledge: such a packet is older than the connection.
  void acknowledge() {
    if (received_ > 0 && !answer_) answer_ = {roce::Answer::kAck, roce::kUnlimitedCredits};
  }
  void refuse_gap() {
    if (has_said_nak_) return;
    has_said_nak_ = true;
    answer_ = {roce::Answer::kSequenceError, 0};
  }
  void refuse_not_ready() {
    has_said_nak_ = true;
    answer_ = {roce::Answer::kRnrNak, config_.rnr_timer};
  }
  void end(roce::Answer why) {
    ended_ = true;
    answer_ = {why, 0};
  }

  ResponderConfig config_;
  roce::WriteResponder placer_;
  std::uint8_t nothing_ = 0;  // where empty messages are written
  std::uint64_t received_ = 0, messages_ = 0;
  std::uint32_t receives_ = 0;
  bool is_inside_message_ = false, has_immediate_ = false, has_said_nak_ = false, ended_ = false;
  std::optional<roce::Syndrome> answer_;
};

}  // namespace jaxina::rc
