#include "rdma_engine/transport/rc/ring_endpoint.h"

#include <utility>
#include <vector>

#include "rdma_engine/base/clock.h"
#include "rdma_engine/messages/message_session.h"
#include "rdma_engine/transport/rc/plain_ring.h"
#include "rdma_engine/transport/rc/reliable.h"
#include "rdma_engine/transport/rc/ring_session.h"
#include "rdma_engine/transport/switched_endpoint.h"

namespace jaxina::rc {
namespace {

// How often the link is polled without result before the thread sleeps: some microseconds.
constexpr int kSpins = 64;

roce::MessageSessionConfig config_of(const Membership& member) {
  return {.shape = member.shape,
          .job = member.job,
          .secret = member.secret,
          .timer = worker_timer(member.shape.slots()),
          .worker = member.worker,
          .summed = roce::Summed::kByPacket};
}

class RingEndpoint final : public SwitchedEndpoint {
 public:
  RingEndpoint(const Membership& member, std::unique_ptr<RingLink> link, bool is_plain)
      : SwitchedEndpoint(member.shape, {}, kSpins),
        link_(std::move(link)),
        plain_(is_plain ? std::make_unique<PlainRing>(*link_, member.shape, member.worker) : nullptr),
        session_(config_of(member), queues()),
        ring_(session_, config_of(member), probe(member, is_plain)) {}
  ~RingEndpoint() override {
    if (!failed() && !has_given_up_ && worker().idle()) link_->linger();
  }

  Worker& worker() override { return session_.worker(); }
  // The control plane tells the others.
  void end(const Status&) override { has_given_up_ = true; }

 private:
  std::optional<RingProbe> probe(const Membership& member, bool is_plain) {
    if (is_plain) return std::nullopt;
    return RingProbe(*link_, member.shape, member.job, member.secret);
  }
  roce::MessageQueues& queues() { return plain_ ? static_cast<roce::MessageQueues&>(*plain_) : *link_; }
  Counters transport_counters() const override {
    const auto held = link_->hold();
    return link_->counters();
  }
  void send_ready() override;
  bool receive() override;
  void sleep(Nanoseconds timeout) override { queues().wait(timeout); }
  void interrupt() override { link_->interrupt(); }

  std::unique_ptr<RingLink> link_;
  std::unique_ptr<PlainRing> plain_;  // null: a switch adds
  roce::MessageSession session_;
  RingSession ring_;
  bool has_given_up_ = false;
  std::vector<roce::MessageQueues::Arrival> arrivals_;
};

void RingEndpoint::send_ready() {
  const auto held = link_->hold();
  for (std::optional<Pass> posted; !failed();) {
    fail(ring_.post_next(now(), posted));
    if (!posted) break;
  }
  fail(queues().flush());
}

bool RingEndpoint::receive() {
  const auto held = link_->hold();
  arrivals_.clear();
  fail(queues().poll(arrivals_));
  const Nanoseconds arrived = now();
  for (const roce::MessageQueues::Arrival& arrival : arrivals_) fail(ring_.on_arrival(arrival, arrived));
  fail(queues().flush());  // what a plain ring sends on
  return !arrivals_.empty();
}

}  // namespace

std::unique_ptr<Endpoint> make_ring_endpoint(const Membership& member, std::unique_ptr<RingLink> link, bool is_plain) {
  return std::make_unique<RingEndpoint>(member, std::move(link), is_plain);
}

}  // namespace jaxina::rc
