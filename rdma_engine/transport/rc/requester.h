// Requester: the sending half of one queue pair of a reliable connection (RC). It cuts RDMA writes into packets,
// numbers them, and sends them again from the first missing one on (go-back-N) until the other side has acknowledged
// them. It is sans-IO: packets, answers and times go in, packets and completions come out. No clock, and no allocation
// after construction.
//
// The rules are those of the InfiniBand Architecture Specification, 9.7, for writes:
//   * An acknowledgement names the last packet that has arrived, and so acknowledges all before it. A NAK and an RNR
//   NAK
//     acknowledge all before the packet that they name.
//   * A NAK for a sequence error, or a timeout, sends again from there on. Each costs a retry; progress gives them
//   back.
//   * An RNR NAK sends again from there on, after the time that it says.
//   * Any other NAK ends the connection. So does a retry too many. Then everything outstanding completes with an error.
//
// In one thing it differs: without a limit to the retries, each timeout in a row is twice as long as the last one, up
// to 16 times the first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "rdma_engine/base/time.h"
#include "rdma_engine/wire/aeth.h"
#include "rdma_engine/wire/psn.h"
#include "rdma_engine/wire/write.h"

namespace jaxina::rc {

// The longest time without an acknowledgement, by the code that queue pairs have for it: 4.096 us x 2^code. Codes have
// 5 bits, and 0 means no timeout.
constexpr Nanoseconds ack_timeout(std::uint8_t code) { return Nanoseconds{4096} << code; }
inline constexpr std::uint8_t kMaxTimeoutCode = 31;

// Linux's Soft-RoCE keeps at most so many packets unacknowledged.
inline constexpr std::uint32_t kMaxUnacknowledged = 128;

struct RequesterConfig {
  std::uint32_t remote_qpn = 0;
  std::uint32_t first_psn = 0;
  std::size_t mtu = 1024;                     // the most payload bytes of a packet
  std::uint8_t timeout = 14;                  // a code for ack_timeout()
  std::optional<std::uint8_t> retries = 7;    // nothing: no limit, as Soft-RoCE understands 7
  std::optional<std::uint8_t> rnr_retries{};  // nothing: no limit, as the specification understands 7
  std::uint32_t window = kMaxUnacknowledged;  // the most packets without an acknowledgement
  std::size_t queue = 16;                     // the most messages that are not completed
};

// A write to be sent. Its payload stays as it is until its completion.
struct Request {
  std::uint64_t id = 0;  // the caller's
  roce::Write write = {};
  bool has_immediate = true;
};

enum class CompletionStatus : std::uint8_t {
  kSuccess,          // the other side has all of it
  kRetriesExceeded,  // the other side does not answer
  kRnrRetriesExceeded,
  kRemoteInvalidRequest,
  kRemoteAccess,
  kRemoteOperation,
  kFlushed,  // the connection has ended because of another message; it may have arrived or not
};
std::string_view to_string(CompletionStatus status);

struct Completion {
  std::uint64_t id = 0;
  CompletionStatus status = CompletionStatus::kSuccess;
};

class Requester {
 public:
  // Throws Error(kInvalidArgument) if a number is out of range.
  explicit Requester(const RequesterConfig& config);

  // Queues a message. Returns false, and does nothing, if the queue is full. If the connection has ended, the message
  // completes with kFlushed.
  bool post(const Request& request);

  // A packet to send now. The payload is request.write's bytes [offset, offset + size).
  struct Outgoing {
    roce::Headers headers;
    Request request;
    std::size_t offset = 0, size = 0;
    bool repeated = false;  // it was sent before
  };
  std::optional<Outgoing> next_packet(Nanoseconds now);

  // An ACKNOWLEDGE packet for this queue pair has come.
  void on_answer(const roce::Headers& answer, Nanoseconds now);
  void on_tick(Nanoseconds now);
  // When on_tick() or next_packet() has something to do; nothing if only an answer or a message can change that.
  std::optional<Nanoseconds> next_deadline() const;

  // Completions come in the order of post().
  std::optional<Completion> pop_completion();

  bool has_ended() const { return ended_; }
  // Whether every message has completed.
  bool is_idle() const { return count_ == 0; }
  // Packets that the other side has acknowledged, and packets sent at least once, counted from the first.
  std::uint64_t acknowledged() const { return acknowledged_; }
  std::uint64_t sent() const { return sent_; }
  std::uint64_t retransmissions() const { return retransmissions_; }

 private:
  // Numbers of packets count from the first one and do not wrap. psn() and number_of() convert.
  struct Message {
    Request request;
    std::uint64_t first = 0, end = 0;  // its packets: [first, end)
  };
  std::uint32_t psn(std::uint64_t number) const { return roce::psn_after(config_.first_psn, number); }
  // The number that the answer names, if it can be of an outstanding packet, or of the next one to be sent.
  std::optional<std::uint64_t> number_of(std::uint32_t answered) const;
  Message& message(std::size_t index) { return messages_[(front_ + index) % messages_.size()]; }
  const Message& message_of(std::uint64_t number) const;
  void advance(std::uint64_t acknowledged, Nanoseconds now);
  void go_back(std::uint64_t number, Nanoseconds now);
  void end(CompletionStatus status);
  void complete_front(CompletionStatus status);
  void arm(Nanoseconds now);

  RequesterConfig config_;
  std::vector<Message> messages_;  // ring of those that are not completed, oldest first
  std::size_t front_ = 0, count_ = 0;
  std::vector<Completion> completions_;  // ring of those that are not popped
  std::size_t first_completion_ = 0, completion_count_ = 0;
  std::uint64_t posted_ = 0;        // one behind the last packet of all messages
  std::uint64_t sent_ = 0;          // one behind the last packet that was ever sent
  std::uint64_t next_ = 0;          // the packet to send next: acknowledged_ <= next_ <= sent_
  std::uint64_t acknowledged_ = 0;  // all packets before this one have arrived
  std::optional<Nanoseconds> deadline_;
  std::optional<Nanoseconds> ready_at_;                           // the receiver is not ready before this time
  std::uint32_t failures_ = 0, rnr_failures_ = 0, timeouts_ = 0;  // since the last progress
  std::uint64_t retransmissions_ = 0;
  bool ended_ = false;
};

}  // namespace jaxina::rc
