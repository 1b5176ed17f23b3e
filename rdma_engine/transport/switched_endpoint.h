// What all endpoints share whose aggregator is a switch on a network: the loop that moves packets and waits, and what
// refusals, silence and the word of waiting workers mean. A transport says how packets leave and come in.
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
  // where: the switch, for messages. spins: how often in a row it is looked for packets in vain before the thread
  // sleeps.
  SwitchedEndpoint(const JobShape& shape, std::string where, int spins)
      : pending_(shape.slots(), shape.workers()), contact_(std::move(where)), spins_(spins) {}

  // Sends what the worker has to send.
  virtual void send_ready() = 0;
  // Handles what has arrived, without waiting; false if there was nothing.
  virtual bool receive() = 0;
  // Sleeps until something may have arrived, interrupt() was called, or the timeout has passed.
  virtual void sleep(Nanoseconds timeout) = 0;
  virtual void interrupt() = 0;  // thread-safe

  // To be told of each pass that is sent, and of each packet of the job that comes.
  void on_sent(const Pass& pass) { contact_.sent(pass.retransmission); }
  void on_answer() { contact_.answered(); }
  // An ICMP error came: no such port, host or network.
  void on_unreachable() { contact_.refused(); }
  // Of an answer that is no result; the worker has been told already.
  void on_notice(const wire::Header& header, std::span<const std::uint8_t> payload);
  // Ends this endpoint; the first failure stands, and no failure changes nothing.
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
