#include "rdma_engine/transport/roce/rdma_endpoint.h"

#include <limits>
#include <utility>
#include <vector>

#include "rdma_engine/base/clock.h"
#include "rdma_engine/messages/message_session.h"
#include "rdma_engine/transport/switched_endpoint.h"

namespace jaxina::roce {
namespace {

// The minimum is large for the same reason as in udp: asking again before the slowest worker's thread got a processor
// costs more than it saves, and here a message is many packets. Queue pairs do not keep order among each other, so
// being overtaken means nothing and `reordering` is off.
constexpr TimerLimits kTimer{.initial = 100'000'000,
                             .minimum = 20'000'000,
                             .maximum = 500'000'000,
                             .reordering = std::numeric_limits<std::uint16_t>::max()};
// How often the device is polled without result before the thread sleeps: some microseconds.
constexpr int kSpins = 64;

// Connected queue pairs.
struct Connection {
  std::unique_ptr<QueuePairs> pairs;
  ConnectionEnd remote;
};

class RdmaEndpoint final : public SwitchedEndpoint {
 public:
  RdmaEndpoint(const Membership& member, Connection connection)
      : SwitchedEndpoint(member.shape,
                         {SwitchContact(connection.remote.address + ":" + std::to_string(connection.remote.udp_port))},
                         kSpins),
        pairs_(std::move(connection.pairs)),
        session_({.shape = member.shape,
                  .job = member.job,
                  .secret = member.secret,
                  .timer = kTimer,
                  .worker = member.worker},
                 *pairs_) {}

  Worker& worker() override { return session_.worker(); }

 private:
  Counters transport_counters() const override {
    Counters counters = pairs_->counters();
    counters[Counter::kPacketsRejected] += rejected_;
    return counters;
  }
  void send_ready() override;
  bool receive() override;
  void sleep(Nanoseconds timeout) override { pairs_->wait(timeout); }
  void interrupt() override { pairs_->interrupt(); }
  void on_arrival(const QueuePairs::Arrival& arrival, Nanoseconds arrived);

  std::unique_ptr<QueuePairs> pairs_;
  MessageSession session_;
  std::vector<QueuePairs::Arrival> arrivals_;
  std::uint64_t rejected_ = 0;
};

void RdmaEndpoint::send_ready() {
  for (std::optional<Pass> posted; !failed();) {
    fail(session_.post_next(now(), posted));
    if (!posted) break;
    on_sent(*posted);
  }
  fail(pairs_->flush());
}

bool RdmaEndpoint::receive() {
  arrivals_.clear();
  fail(pairs_->poll(arrivals_));
  const Nanoseconds arrived = now();
  for (const QueuePairs::Arrival& arrival : arrivals_) on_arrival(arrival, arrived);
  return !arrivals_.empty();
}

void RdmaEndpoint::on_arrival(const QueuePairs::Arrival& arrival, Nanoseconds arrived) {
  on_answer(arrival.queue);  // the device accepts messages only from the switch
  const MessageSession::Arrived message = session_.on_arrival(arrival, arrived);
  switch (message.kind) {
    case MessageSession::Kind::kResult: return;
    case MessageSession::Kind::kOtherPass:
    case MessageSession::Kind::kRejected: ++rejected_; return;
    case MessageSession::Kind::kPending:
    case MessageSession::Kind::kRefused:
    case MessageSession::Kind::kAborted: return on_notice(message.header, message.payload);
  }
}

}  // namespace

std::unique_ptr<Endpoint> make_rdma_endpoint(const Membership& member, const MakeQueuePairs& make,
                                             const Exchange& exchange) {
  const MessageLayout layout(member.shape);
  Connection connection{make(layout.queues(), member.shape.slots() * layout.stride(), layout.receive_bytes()), {}};
  connection.remote = exchange(connection.pairs->local());
  connection.pairs->connect(connection.remote);
  return std::make_unique<RdmaEndpoint>(member, std::move(connection));
}

}  // namespace jaxina::roce
