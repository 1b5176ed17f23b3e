// SwitchedEndpoint: the common part of all endpoints whose aggregator is on a network: a switch, or servers in the
// workers. It has the loop that moves packets and waits, and it interprets refusals, silence and pending notices. A
// derived class sends and receives packets.
#pragma once

#include <atomic>
#include <span>
#include <utility>
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
  std::vector<std::uint32_t> missing() final;

 protected:
  // Slot i is summed at contacts[i % size]. `spins` is how many times in a row receive() may find nothing before the
  // thread sleeps.
  SwitchedEndpoint(const JobShape& shape, std::vector<SwitchContact> contacts, int spins)
      : pending_(shape.slots(), shape.workers()), contacts_(std::move(contacts)), spins_(spins) {}

  // Sends everything that the worker wants to send.
  virtual void send_ready() = 0;
  // Handles what has arrived, without waiting, but leaves some of a flood for later. Returns false if there was
  // nothing.
  virtual bool receive() = 0;
  // Sleeps until something may have arrived, interrupt() is called, or the timeout passes.
  virtual void sleep(Nanoseconds timeout) = 0;
  virtual void interrupt() = 0;  // thread-safe

  // The derived class calls these for each pass that it sends, and for each packet of the job that arrives.
  void on_sent(const Pass& pass) { contact_of(pass.slot).sent(pass.retransmission()); }
  void on_answer(std::size_t slot) { contact_of(slot).answered(); }
  // An ICMP error arrived about contacts[index]: no such port, host or network.
  void on_unreachable(std::size_t index) { contacts_[index].refused(); }
  // Handles an answer that is not a result. The worker has been told already.
  void on_notice(const wire::Header& header, std::span<const std::uint8_t> payload);
  // Ends this endpoint with a failure. The first failure stays; an ok status changes nothing.
  void fail(Status status);
  bool failed() const { return !failure_.ok(); }

 private:
  SwitchContact& contact_of(std::size_t slot) { return contacts_[slot % contacts_.size()]; }

  PendingPasses pending_;
  std::vector<SwitchContact> contacts_;
  const int spins_;
  std::atomic<bool> woken_ = false;
  Status failure_;  // final
};

}  // namespace jaxina
