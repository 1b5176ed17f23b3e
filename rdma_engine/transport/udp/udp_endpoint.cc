// A worker's end of the udp transport: drives the worker state machine with real time over one socket. What packets
// are sent and taken is here; what refusals and silence mean is in switch_contact.h.
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "rdma_engine/transport/endpoint.h"
#include "rdma_engine/transport/udp/datagram_receiver.h"
#include "rdma_engine/transport/udp/datagram_sender.h"
#include "rdma_engine/transport/udp/loss_filter.h"
#include "rdma_engine/transport/udp/pending_passes.h"
#include "rdma_engine/transport/udp/stream_limits.h"
#include "rdma_engine/transport/udp/switch_contact.h"
#include "rdma_engine/wire/packet.h"
#include "rdma_engine/worker/session.h"

namespace jaxina {
namespace {

using udp::port_of;

// The clock is read once for so many packets, some microseconds: reading it for each took a thirtieth of the thread's time.
constexpr int kPacketsPerReading = 8;

Nanoseconds now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// What a packet adds to its payload on the wire: the UDP header and the IP header.
std::size_t network_headers(const Address& address) { return udp::family(address) == AF_INET6 ? 8 + 40 : 8 + 20; }

std::vector<Address> switch_addresses(const EndpointConfig& config) {
  if (config.ports.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "the udp transport needs at least one port of the switch");
  }
  std::vector<Address> addresses;
  for (const std::uint16_t port : config.ports) {
    addresses.push_back(udp::resolve(config.address, port, ErrorCode::kSwitchUnreachable));
    udp::route_mtu(addresses.back());  // throws if there is no route
  }
  return addresses;
}

Address any_address(int family) {
  return udp::resolve(family == AF_INET6 ? "::" : "0.0.0.0", 0, ErrorCode::kSystem);
}

class UdpEndpoint final : public Endpoint {
 public:
  explicit UdpEndpoint(const EndpointConfig& config)
      : config_(config),
        switch_(switch_addresses(config)),
        socket_(any_address(udp::family(switch_.front())), {.report_unreachable = true}),
        receiver_(socket_),
        sender_(socket_),
        session_({.job = config.job,
                  .secret = config.secret,
                  .worker = static_cast<std::uint16_t>(config.worker),
                  .stream = {.devices = config.devices,
                             .geometry = {config.slots, config.block_size, config.blocks_per_chunk, config.whole_chunks},
                             .timer = udp::kTimer,
                             .paths = static_cast<std::uint32_t>(switch_.size()),
                             .window = udp::kWindow},
                  .checksum = config.checksums ? wire::Checksum::kRequired : wire::Checksum::kOptional}),
        pending_(config.slots, config.workers),
        loss_(config.loss, config.loss_seed),
        contact_(udp::to_string(switch_.front())),
        headers_(network_headers(switch_.front())) {}

  Worker& worker() override { return session_.worker(); }
  Status progress(Nanoseconds wait) override;
  void wake() override;
  std::vector<std::uint32_t> missing() override;
  Statistics statistics() const override {
    Statistics statistics = statistics_;
    statistics.retransmissions = session_.worker().retransmissions();
    statistics.staged_words = session_.worker().staged_words();
    return statistics;
  }

 private:
  Status send_ready();
  bool receive();
  void on_packet(std::span<const std::uint8_t> packet, const Address& from, Nanoseconds arrival);

  EndpointConfig config_;
  std::vector<Address> switch_;  // by port index
  udp::UdpSocket socket_;
  udp::DatagramReceiver receiver_;
  udp::DatagramSender sender_;
  Session session_;
  udp::PendingPasses pending_;
  udp::LossFilter loss_;
  udp::SwitchContact contact_;
  std::size_t headers_;
  std::atomic<bool> woken_ = false;
  Statistics statistics_;
  Status failure_;  // final
};

Status UdpEndpoint::progress(Nanoseconds wait) {
  Worker& worker = session_.worker();
  const Nanoseconds deadline = now() + wait;
  while (failure_.ok()) {
    failure_ = send_ready();
    if (!failure_.ok() || woken_.exchange(false) || worker.has_completed() || worker.idle()) break;
    if (receive()) continue;
    // Only now is a result known to be late: nothing that has arrived is unread, however long this thread was stopped.
    const Nanoseconds start = now();
    failure_ = contact_.check(start);
    const std::size_t in_flight = worker.in_flight();
    worker.on_tick(start);
    if (worker.in_flight() < in_flight) continue;
    if (start >= deadline) break;
    if (worker.awaits_devices()) {
      std::this_thread::yield();
      continue;
    }
    socket_.wait_readable(std::min(deadline, worker.next_deadline().value_or(deadline)) - start);
    if (recorder_) recorder_->waited(TraceEvent::Wait::kSocket, start, now());
  }
  return failure_;
}

// Handles a batch of what has arrived; false if there was nothing.
bool UdpEndpoint::receive() {
  const Nanoseconds arrival = now();
  const std::size_t packets = receiver_.receive(
      [&](std::span<const std::uint8_t> packet, const Address& from) { on_packet(packet, from, arrival); });
  if (sender_.take_unreachable() | receiver_.take_unreachable()) contact_.refused();
  return packets > 0;
}

void UdpEndpoint::wake() {
  woken_ = true;
  socket_.interrupt();
}

Status UdpEndpoint::send_ready() {
  // The worker starts a pass's timer when it hands the pass out, so room for the largest packet comes first.
  bool more = true;
  while (more) {
    Nanoseconds time = 0;
    for (int packets = 0; std::uint8_t* packet = sender_.reserve(session_.max_packet_size()); ++packets) {
      if (packets % kPacketsPerReading == 0) time = now();
      const std::optional<Session::Outgoing> out = session_.next_packet(time, packet);
      more = out.has_value();
      sender_.shrink(more ? out->size : 0);
      if (!more) break;
      sender_.add(switch_[out->pass.slot % switch_.size()], {packet, out->size});
      contact_.sent(out->pass.retransmission);
      ++statistics_.packets_sent;
      statistics_.bytes_sent += out->size + headers_;
    }
    const Status status = sender_.flush();
    if (!status.ok()) return status;
  }
  return {};
}

void UdpEndpoint::on_packet(std::span<const std::uint8_t> packet, const Address& from, Nanoseconds arrival) {
  if (loss_.drops()) {
    ++statistics_.packets_dropped;
    if (recorder_) recorder_->add({.kind = TraceEvent::Kind::kDropped, .time = arrival});
    return;
  }
  ++statistics_.packets_received;
  statistics_.bytes_received += packet.size() + headers_;
  const std::optional<wire::Header> header = session_.accept(packet);
  if (!header || from != switch_[header->slot % switch_.size()]) {
    ++statistics_.packets_rejected;
    if (recorder_) recorder_->add({.kind = TraceEvent::Kind::kRejected, .time = arrival});
    return;
  }
  contact_.answered();
  const auto payload = packet.subspan(wire::kHeaderSize);
  switch (session_.on_reply(*header, packet.data(), arrival)) {
    case Session::Reply::kResult:
      break;
    case Session::Reply::kStale:
      ++statistics_.packets_rejected;
      break;
    case Session::Reply::kPending:
      pending_.remember(header->slot, header->epoch, payload);
      break;
    case Session::Reply::kRefused:
      failure_ = contact_.refusal(static_cast<wire::Refusal>(header->code));
      break;
    case Session::Reply::kAborted:
      failure_ = contact_.abort(header->code, payload);
      break;
  }
}

std::vector<std::uint32_t> UdpEndpoint::missing() { return pending_.missing(session_.worker().passes_in_flight()); }

}  // namespace

std::unique_ptr<Endpoint> make_udp_endpoint(const EndpointConfig& config) {
  return std::make_unique<UdpEndpoint>(config);
}

}  // namespace jaxina
