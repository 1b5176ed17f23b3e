#include "rdma_engine/transport/roce/rdma_endpoint.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <limits>
#include <thread>
#include <utility>
#include <vector>

#include "rdma_engine/transport/roce/pass_message.h"
#include "rdma_engine/transport/udp/pending_passes.h"
#include "rdma_engine/transport/udp/switch_contact.h"

namespace jaxina::roce {
namespace {

Nanoseconds now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// As for udp: asking again before the slowest worker's thread had a processor costs more than it saves, and a message is
// many packets. Queue pairs do not keep each other's order, so being overtaken says nothing.
constexpr TimerLimits kTimer{.initial = 100'000'000,
                             .minimum = 20'000'000,
                             .maximum = 500'000'000,
                             .reordering = std::numeric_limits<std::uint16_t>::max()};
// Soft-RoCE takes nothing more on a queue pair that lost the end of a message, until it is reset. A reset loses what is
// on its way, so it waits until this many copies of a pass in a row brought neither a result nor a notice.
constexpr std::uint32_t kUnansweredUntilReset = 2;
// How often the device is asked in vain before the thread sleeps: some microseconds.
constexpr int kSpins = 64;

class RdmaEndpoint final : public Endpoint {
 public:
  RdmaEndpoint(const EndpointConfig& config, const MakeQueuePairs& make, const Exchange& exchange)
      : config_(config),
        geometry_{config.slots, config.block_size, config.blocks_per_chunk, config.whole_chunks},
        layout_(geometry_),
        pairs_(make(layout_.queues(), geometry_.slots * layout_.stride(), layout_.receive_bytes())),
        worker_({.devices = config.devices,
                 .geometry = geometry_,
                 .timer = kTimer,
                 .memory = {.results = std::as_bytes(pairs_->receive_memory()),
                            .messages = std::as_writable_bytes(pairs_->send_memory()),
                            .stride = layout_.stride(),
                            .adopt = [this](const auto& allocate) { return pairs_->adopt(allocate); }}}),
        passes_(config.slots),
        unanswered_(config.slots),
        pending_(config.slots, config.workers),
        remote_(exchange(pairs_->local())),
        contact_(remote_.address + ":" + std::to_string(remote_.udp_port)) {
    pairs_->connect(remote_);
  }

  Worker& worker() override { return worker_; }
  Status progress(Nanoseconds wait) override;
  void wake() override {
    woken_ = true;
    pairs_->interrupt();
  }
  std::vector<std::uint32_t> missing() override;
  Statistics statistics() const override;

 private:
  Status send_ready();
  Status send(const Pass& pass);
  Status receive(bool& any);
  void on_result(const QueuePairs::Arrival& arrival, Nanoseconds arrived);
  void on_notice(const QueuePairs::Arrival& arrival, Nanoseconds arrived);

  EndpointConfig config_;
  Geometry geometry_;
  MessageLayout layout_;
  std::unique_ptr<QueuePairs> pairs_;
  Worker worker_;
  std::vector<Pass> passes_;                // per slot: the latest one sent
  std::vector<std::uint32_t> unanswered_;   // per slot: retransmissions since the switch last spoke of it
  udp::PendingPasses pending_;
  ConnectionEnd remote_;
  udp::SwitchContact contact_;
  std::vector<QueuePairs::Arrival> arrivals_;
  std::atomic<bool> woken_ = false;
  std::uint64_t rejected_ = 0;
  Status failure_;  // final
};

Status RdmaEndpoint::progress(Nanoseconds wait) {
  const Nanoseconds deadline = now() + wait;
  int spins = 0;
  while (failure_.ok()) {
    if (Status status = send_ready(); !status.ok()) failure_ = std::move(status);
    if (!failure_.ok() || woken_.exchange(false) || worker_.has_completed() || worker_.idle()) break;
    bool any = false;
    if (Status status = receive(any); !status.ok()) failure_ = std::move(status);
    if (any) {
      spins = 0;
      continue;
    }
    // Only now is a result known to be late: nothing that has arrived is unread, however long this thread was stopped.
    const Nanoseconds start = now();
    if (failure_.ok()) failure_ = contact_.check(start);
    const std::size_t in_flight = worker_.in_flight();
    worker_.on_tick(start);
    if (worker_.in_flight() < in_flight || ++spins < kSpins) continue;
    if (start >= deadline) break;
    if (worker_.awaits_devices()) {
      std::this_thread::yield();
      continue;
    }
    pairs_->wait(std::max<Nanoseconds>(0, std::min(deadline, worker_.next_deadline().value_or(deadline)) - start));
    if (recorder_) recorder_->waited(TraceEvent::Wait::kSocket, start, now());
  }
  return failure_;
}

Status RdmaEndpoint::send_ready() {
  while (const std::optional<Pass> pass = worker_.next_pass(now())) {
    if (Status status = send(*pass); !status.ok()) return status;
  }
  return pairs_->flush();
}

Status RdmaEndpoint::send(const Pass& pass) {
  // The buffer may still be read for an earlier copy of this slot's last pass: see docs/rdma.md why that is harmless. A
  // device may have written this pass's words into it already.
  std::uint8_t* message = pairs_->send_memory().data() + pass.slot * layout_.stride();
  const std::size_t words = layout_.words(pass.words, pass.exponents);
  const std::size_t size = layout_.bytes(pass.words, pass.exponents);
  const std::uint32_t* on_device = worker_.words_on_device(pass);
  if (!on_device) worker_.fill_words(pass, reinterpret_cast<std::uint32_t*>(message), numerics::Store::kBigEndian);
  std::memset(message + 4 * std::size_t{pass.words}, 0, size - 4 * std::size_t{pass.words});
  worker_.fill_exponents(pass, message + 4 * words, false);
  passes_[pass.slot] = pass;
  contact_.sent(pass.retransmission);
  unanswered_[pass.slot] = pass.retransmission ? unanswered_[pass.slot] + 1 : 0;
  if (unanswered_[pass.slot] == kUnansweredUntilReset) {
    unanswered_[pass.slot] = 0;
    if (Status status = pairs_->reset(pass.slot); !status.ok()) return status;
  }
  const std::size_t of_device = on_device ? 4 * std::size_t{pass.words} : 0;
  const std::span<const std::uint8_t> here(message + of_device, size - of_device);
  const std::span<const std::uint8_t> there(reinterpret_cast<const std::uint8_t*>(on_device), of_device);
  pairs_->post_write(pass.slot, on_device ? there : here, on_device ? here : there,
                     address_of({pass.epoch, pass.slot, pass.exponents}), pass.fingerprint);
  return {};
}

Status RdmaEndpoint::receive(bool& any) {
  arrivals_.clear();
  const Status status = pairs_->poll(arrivals_);
  const Nanoseconds arrived = now();
  any = !arrivals_.empty();
  for (const QueuePairs::Arrival& arrival : arrivals_) {
    arrival.queue == layout_.notices() ? on_notice(arrival, arrived) : on_result(arrival, arrived);
  }
  return status;
}

void RdmaEndpoint::on_result(const QueuePairs::Arrival& arrival, Nanoseconds arrived) {
  contact_.answered();  // the device takes nothing from anybody else
  const Pass& pass = passes_[arrival.queue];
  if (arrival.immediate != pass.fingerprint || arrival.bytes != layout_.bytes(pass.words, pass.exponents)) {
    ++rejected_;  // of an earlier pass, or of nothing this worker sums
    return;
  }
  const std::uint8_t* message = pairs_->receive_memory().data() + layout_.result_place(pass.slot, pass.epoch);
  const Result result{.slot = pass.slot,
                      .epoch = pass.epoch,
                      .fingerprint = pass.fingerprint,
                      .words = pass.words,
                      .exponents = pass.exponents,
                      .word_data = reinterpret_cast<const std::uint32_t*>(message),
                      .exponent_data = message + 4 * layout_.words(pass.words, pass.exponents),
                      .order = numerics::Order::kBigEndian};
  if (worker_.on_result(result, arrived) != ResultVerdict::kAccepted) ++rejected_;
}

void RdmaEndpoint::on_notice(const QueuePairs::Arrival& arrival, Nanoseconds arrived) {
  const bool last = arrival.immediate == MessageLayout::kLastNotice;
  const std::size_t room = last ? MessageLayout::kLastNoticeSize : MessageLayout::kNoticeSize;
  wire::Header header;
  if ((!last && arrival.immediate >= geometry_.slots) || arrival.bytes > room) {
    ++rejected_;
    return;
  }
  const std::size_t place = last ? layout_.last_notice_place() : layout_.notice_place(arrival.immediate);
  const std::span<const std::uint8_t> packet = pairs_->receive_memory().subspan(place, arrival.bytes);
  if (wire::parse(packet, header) != wire::ParseResult::kOk || header.job != config_.job ||
      header.secret != config_.secret || header.slot >= geometry_.slots) {
    ++rejected_;
    return;
  }
  contact_.answered();
  const auto payload = packet.subspan(wire::kHeaderSize);
  switch (header.kind) {
    case wire::Kind::kPending:
      worker_.on_pending(header.slot, header.epoch, arrived);
      pending_.remember(header.slot, header.epoch, payload);
      unanswered_[header.slot] = 0;
      return;
    case wire::Kind::kRefused:
      failure_ = contact_.refusal(static_cast<wire::Refusal>(header.code));
      return;
    case wire::Kind::kAbort:
      failure_ = contact_.abort(header.code, payload);
      return;
    case wire::Kind::kUpdate:
    case wire::Kind::kResult:
      ++rejected_;
      return;
  }
}

std::vector<std::uint32_t> RdmaEndpoint::missing() { return pending_.missing(worker_.passes_in_flight()); }

Statistics RdmaEndpoint::statistics() const {
  const QueuePairs::Counters counters = pairs_->counters();
  Statistics statistics;
  statistics.packets_sent = counters.packets_sent;
  statistics.packets_received = counters.packets_received;
  statistics.bytes_sent = counters.bytes_sent;
  statistics.bytes_received = counters.bytes_received;
  statistics.packets_dropped = counters.packets_dropped;
  statistics.packets_rejected = counters.packets_rejected + rejected_;
  statistics.retransmissions = worker_.retransmissions();
  statistics.staged_words = worker_.staged_words();
  return statistics;
}

}  // namespace

std::unique_ptr<Endpoint> make_rdma_endpoint(const EndpointConfig& config, const MakeQueuePairs& make,
                                             const Exchange& exchange) {
  return std::make_unique<RdmaEndpoint>(config, make, exchange);
}

}  // namespace jaxina::roce
