// SwitchedEndpoint: the common part of all endpoints whose aggregator is a switch on a network. It has the loop that
// moves packets and waits, and it interprets refusals, silence and pending notices. A derived class sends and receives
// packets.
#pragma once

#include <atomic>
#include <span>
#include <string>
#include <vector>

#include "rdma_engine/datagrams/pending_passes.h"
#include "rdma_engine/datagrams/switch_contact.h"
#include "rdma_engine/transport/endpoint.h"

namespace jaxina {

class SwitchedEndpoint : public Endpoint {
 public:
  Status progress(Nanoseconds wait) final;
  void wake() final {
    woken_ = true;
    interrupt();
  }
  std::vector<std::uint32_t> missing() final { return pending_.missing(worker().passes_in_flight()); }

 protected:
  // `where` is the switch's address, for messages. `spins` is how many times in a row receive() may find nothing before
  // the thread sleeps.
  SwitchedEndpoint(const JobShape& shape, std::string where, int spins)
      : pending_(shape.slots(), shape.workers()), contact_(std::move(where)), spins_(spins) {}

  // Sends everything that the worker wants to send.
  virtual void send_ready() = 0;
  // Handles what has arrived, without waiting. Returns false if there was nothing.
  virtual bool receive() = 0;
  // Sleeps until something may have arrived, interrupt() is called, or the timeout passes.
  virtual void sleep(Nanoseconds timeout) = 0;
  virtual void interrupt() = 0;  // thread-safe

  // The derived class calls these for each pass that it sends, and for each packet of the job that arrives.
  void on_sent(const Pass& pass) { contact_.sent(pass.retransmission()); }
  void on_answer() { contact_.answered(); }
  // An ICMP error arrived: no such port, host or network.
  void on_unreachable() { contact_.refused(); }
  // Handles an answer that is not a result. The worker has been told already.
  void on_notice(const wire::Header& header, std::span<const std::uint8_t> payload);
  // Ends this endpoint with a failure. The first failure stays; an ok status changes nothing.
  void fail(Status status);
  bool failed() const { return !failure_.ok(); }

 private:
  PendingPasses pending_;
  SwitchContact contact_;
  const int spins_;
  std::atomic<bool> woken_ = false;
  Status failure_;  // final
};

}  // namespace jaxina
