// SwitchContact: decides whether the switch, or a worker's own server, can still be reached, and turns its final
// replies into errors that tell the user what to do.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "rdma_engine/base/watched_clock.h"
#include "rdma_engine/errors.h"
#include "rdma_engine/wire/packet.h"
#include "rdma_engine/worker/retransmission_timer.h"

namespace jaxina {

class SwitchContact {
 public:
  // `where` is the switch's address, for error messages. With `worker`, it is that of the server in this worker's
  // process. Then an error says that the worker is lost, because the server lives as long as the worker.
  explicit SwitchContact(std::string where, std::optional<std::uint32_t> worker = {});

  void sent(bool retransmission);
  // A packet of the job arrived from there.
  void answered();
  // An ICMP error arrived: no such port, host or network.
  void refused();

  // Returns kSwitchUnreachable or kWorkerLost once ICMP errors or silence have lasted long enough. Call it often while
  // packets are in flight. Long gaps between calls hardly count, because this process may have been stopped meanwhile.
  Status check(Nanoseconds now);

  // The worker whose server has not answered its latest retransmissions. Empty for a switch.
  std::optional<std::uint32_t> silent_worker() const;

  Status refusal(wire::Refusal refusal) const;
  Status abort(std::uint8_t code, std::span<const std::uint8_t> sentence) const;

 private:
  Status gone() const;
  Status silent() const;
  Status forgotten() const;

  std::string where_;
  std::optional<std::uint32_t> worker_;
  std::uint32_t unanswered_ = 0;  // retransmissions since the last answer
  std::uint32_t refusals_ = 0;    // ICMP errors since the last answer
  WatchedClock clock_;
  Nanoseconds first_unanswered_ = 0, first_refusal_ = 0;  // times of that clock
};

}  // namespace jaxina
