#include "rdma_engine/transport/rc/ring_endpoint.h"

#include <string>
#include <utility>
#include <vector>

#include "rdma_engine/aggregator/mismatch.h"
#include "rdma_engine/base/clock.h"
#include "rdma_engine/messages/message_session.h"
#include "rdma_engine/transport/rc/plain_ring.h"
#include "rdma_engine/transport/rc/reliable.h"
#include "rdma_engine/transport/switched_endpoint.h"

namespace jaxina::rc {
namespace {

// How often the link is polled without result before the thread sleeps: some microseconds.
constexpr int kSpins = 64;

class RingEndpoint final : public SwitchedEndpoint {
 public:
  RingEndpoint(const Membership& member, std::unique_ptr<RingLink> link, bool is_plain)
      : SwitchedEndpoint(member.shape, {}, kSpins),
        worker_(member.worker),
        previous_((member.worker + member.shape.workers() - 1) % member.shape.workers()),
        link_(std::move(link)),
        plain_(is_plain ? std::make_unique<PlainRing>(*link_, member.shape, member.worker) : nullptr),
        session_({.shape = member.shape,
                  .job = member.job,
                  .secret = member.secret,
                  .timer = worker_timer(member.shape.slots()),
                  .worker = member.worker,
                  .summed = roce::Summed::kByPacket},
                 queues()),
        awaits_(member.shape.slots()) {}
  ~RingEndpoint() override {
    if (!failed() && !has_given_up_ && worker().idle()) link_->linger();
  }

  Worker& worker() override { return session_.worker(); }
  // The control plane tells the others.
  void end(const Status&) override { has_given_up_ = true; }

 private:
  roce::MessageQueues& queues() { return plain_ ? static_cast<roce::MessageQueues&>(*plain_) : *link_; }
  Counters transport_counters() const override {
    const auto held = link_->hold();
    return link_->counters();
  }
  void send_ready() override;
  bool receive() override;
  void sleep(Nanoseconds timeout) override { queues().wait(timeout); }
  void interrupt() override { link_->interrupt(); }
  void on_arrival(const roce::MessageQueues::Arrival& arrival, Nanoseconds arrived);

  std::uint32_t worker_, previous_;
  std::unique_ptr<RingLink> link_;
  std::unique_ptr<PlainRing> plain_;  // null: a switch adds
  roce::MessageSession session_;
  bool has_given_up_ = false;
  std::vector<bool> awaits_;  // per slot: whether its result is to come
  std::vector<roce::MessageQueues::Arrival> arrivals_;
};

void RingEndpoint::send_ready() {
  const auto held = link_->hold();
  for (std::optional<Pass> posted; !failed();) {
    fail(session_.post_next(now(), posted));
    if (!posted) break;
    awaits_[posted->slot] = true;
  }
  fail(queues().flush());
}

bool RingEndpoint::receive() {
  const auto held = link_->hold();
  arrivals_.clear();
  fail(queues().poll(arrivals_));
  const Nanoseconds arrived = now();
  for (const roce::MessageQueues::Arrival& arrival : arrivals_) on_arrival(arrival, arrived);
  fail(queues().flush());  // what a plain ring sends on
  return !arrivals_.empty();
}

// A reliable connection delivers each message once and in order. So what is not the result of the slot's pass is not
// late, but wrong.
void RingEndpoint::on_arrival(const roce::MessageQueues::Arrival& arrival, Nanoseconds arrived) {
  using Kind = roce::MessageSession::Kind;
  const bool is_awaited = arrival.queue < awaits_.size() && awaits_[arrival.queue];
  if (is_awaited) awaits_[arrival.queue] = false;
  const Kind kind = is_awaited ? session_.on_arrival(arrival, arrived).kind : Kind::kRejected;
  if (kind == Kind::kResult) return;
  if (kind == Kind::kOtherPass) return fail(mismatch_between(previous_, worker_));
  fail({ErrorCode::kMismatch,
        "a sum came round the ring that does not hold every worker's contribution once: another worker sums something "
        "else in the same call, or the switch has lost the job and passes on what it should sum" +
            std::string(kRunTheSame)});
}

}  // namespace

std::unique_ptr<Endpoint> make_ring_endpoint(const Membership& member, std::unique_ptr<RingLink> link, bool is_plain) {
  return std::make_unique<RingEndpoint>(member, std::move(link), is_plain);
}

}  // namespace jaxina::rc
