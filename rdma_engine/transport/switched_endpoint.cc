#include "rdma_engine/transport/switched_endpoint.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "rdma_engine/base/clock.h"

namespace jaxina {
namespace {

// After so many rounds in a row with something to receive, the loop looks at the time all the same. Otherwise a flood
// of packets that are rejected would stop the timers for as long as it lasts. If the socket is full, so many rounds
// read some 65,000 packets: by then this worker has all results that had arrived.
constexpr int kBusyRounds = 1024;

}  // namespace

Status SwitchedEndpoint::progress(Nanoseconds wait) {
  const Nanoseconds deadline = now() + wait;
  for (int idle = 0, busy = 0; !failed();) {
    send_ready();
    if (failed() || woken_.exchange(false) || worker().has_completed() || worker().idle()) break;
    if (receive()) {
      idle = 0;
      if (++busy < kBusyRounds) continue;
    }
    // Check for late results only here, after everything that arrived has been read. So a long stop of this thread does
    // not make results look late.
    const bool was_busy = std::exchange(busy, 0) == kBusyRounds;
    const Nanoseconds start = now();
    for (SwitchContact& contact : contacts_) fail(contact.check(start));
    const std::size_t in_flight = worker().in_flight();
    worker().on_tick(start);
    if (!was_busy && (worker().in_flight() < in_flight || ++idle < spins_)) continue;
    if (start >= deadline) break;
    if (was_busy) continue;
    if (worker().awaits_devices()) {
      std::this_thread::yield();
      continue;
    }
    sleep(std::max<Nanoseconds>(0, std::min(deadline, worker().next_deadline().value_or(deadline)) - start));
    if (recorder_) recorder_->waited(TraceEvent::Wait::kSocket, start, now());
  }
  return failure_;
}

// Workers whose server is silent come first. The aggregators that do answer may wait for others only because those wait
// for the silent one.
std::vector<std::uint32_t> SwitchedEndpoint::missing() {
  std::vector<std::uint32_t> silent;
  for (const SwitchContact& contact : contacts_) {
    const std::optional<std::uint32_t> worker = contact.silent_worker();
    if (worker) silent.push_back(*worker);
  }
  std::sort(silent.begin(), silent.end());  // a server of several threads has several contacts
  silent.erase(std::unique(silent.begin(), silent.end()), silent.end());
  return silent.empty() ? pending_.missing(worker().passes_in_flight()) : silent;
}

void SwitchedEndpoint::on_notice(const wire::Header& header, std::span<const std::uint8_t> payload) {
  switch (header.kind) {
    case wire::Kind::kPending: return pending_.remember(header.slot, header.epoch, payload);
    case wire::Kind::kRefused: return fail(contact_of(header.slot).refusal(static_cast<wire::Refusal>(header.code)));
    case wire::Kind::kAbort: return fail(contact_of(header.slot).abort(header.code, payload));
    case wire::Kind::kUpdate:
    case wire::Kind::kCombined:
    case wire::Kind::kResult: return;
  }
}

void SwitchedEndpoint::fail(Status status) {
  if (failure_.ok()) failure_ = std::move(status);
}

}  // namespace jaxina
