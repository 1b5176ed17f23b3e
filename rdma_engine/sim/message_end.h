// MessageEnd: a worker's end that reads the messages which a network card has written into its memory. How packets
// travel is a derived class's.
#pragma once

#include <deque>
#include <optional>

#include "rdma_engine/messages/message_session.h"
#include "rdma_engine/sim/protocol.h"

namespace jaxina::sim {

class MessageEnd : public WorkerEnd {
 public:
  Worker& worker() override { return session_.worker(); }
  bool has_network_card() const override { return true; }
  std::optional<Reply> next_reply(Nanoseconds now, Origin& origin) override {
    if (unread_.empty()) return std::nullopt;
    const Unread next = unread_.front();
    unread_.pop_front();
    origin = next.origin;
    return take(next.arrival, now);
  }

 protected:
  MessageEnd(const roce::MessageSessionConfig& config, roce::MessageQueues& pairs) : session_(config, pairs) {}

  roce::MessageSession& session() { return session_; }
  virtual Reply take(const roce::MessageQueues::Arrival& arrival, Nanoseconds now) {
    const roce::MessageSession::Arrived message = session_.on_arrival(arrival, now);
    return {kind_of(message.kind), message.header, message.payload};
  }
  void add_unread(const roce::QueuePairs::Arrival& arrival, const Origin& origin) {
    unread_.push_back({arrival, origin});
  }

 private:
  struct Unread {
    roce::QueuePairs::Arrival arrival;
    Origin origin;
  };
  static Kind kind_of(roce::MessageSession::Kind kind) {
    switch (kind) {
      case roce::MessageSession::Kind::kResult: return Kind::kResult;
      case roce::MessageSession::Kind::kOtherPass:
      case roce::MessageSession::Kind::kRejected: return Kind::kStale;
      case roce::MessageSession::Kind::kPending: return Kind::kPending;
      case roce::MessageSession::Kind::kRefused: return Kind::kRefused;
      case roce::MessageSession::Kind::kAborted: return Kind::kAborted;
    }
    return Kind::kStale;
  }

  roce::MessageSession session_;
  std::deque<Unread> unread_;
};

}  // namespace jaxina::sim
