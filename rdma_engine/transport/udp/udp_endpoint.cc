// A worker's end of the udp transport: drives the worker state machine with real time over one socket. What packets
// are sent and taken is here; what refusals and silence mean is in switch_contact.h.
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "rdma_engine/transport/endpoint.h"
#include "rdma_engine/transport/udp/datagram_receiver.h"
#include "rdma_engine/transport/udp/datagram_sender.h"
#include "rdma_engine/transport/udp/loss_filter.h"
#include "rdma_engine/transport/udp/pending_passes.h"
#include "rdma_engine/transport/udp/switch_contact.h"
#include "rdma_engine/wire/packet.h"

namespace jaxina {
namespace {

using udp::port_of;

Nanoseconds now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// A pass takes as long as the slowest worker's thread takes to get a processor, which on a busy host is several
// milliseconds; asking again sooner costs more than it saves. (With a minimum of 1 ms a fifth of all packets were sent
// again on a busy two-processor host, with 10 ms less than one in a hundred.)
constexpr TimerLimits kTimer{.initial = 20'000'000, .minimum = 10'000'000};

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
        worker_({.workers = config.workers,
                 .geometry = {config.slots, config.block_size, config.blocks_per_chunk},
                 .timer = kTimer}),
        pending_(config.slots, config.workers),
        loss_(config.loss, config.loss_seed),
        contact_(udp::to_string(switch_.front())),
        headers_(network_headers(switch_.front())) {}

  Worker& worker() override { return worker_; }
  Status progress(Nanoseconds wait) override;
  void wake() override;
  std::vector<std::uint32_t> missing() override;
  Statistics statistics() const override {
    Statistics statistics = statistics_;
    statistics.retransmissions = worker_.retransmissions();
    return statistics;
  }

 private:
  bool something_completed() const;
  Status send_ready();
  bool receive();
  void send(const Pass& pass, std::uint8_t* packet, std::size_t size);
  void on_packet(std::span<const std::uint8_t> packet, const Address& from, Nanoseconds arrival);
  void on_reply(const wire::Header& header, std::span<const std::uint8_t> packet, Nanoseconds arrival);
  void on_result(const wire::Header& header, const std::uint8_t* packet, Nanoseconds arrival);

  EndpointConfig config_;
  std::vector<Address> switch_;  // by port index
  udp::UdpSocket socket_;
  udp::DatagramReceiver receiver_;
  udp::DatagramSender sender_;
  Worker worker_;
  udp::PendingPasses pending_;
  udp::LossFilter loss_;
  udp::SwitchContact contact_;
  std::size_t headers_;
  std::atomic<bool> woken_ = false;
  Statistics statistics_;
  Status failure_;  // final
};

bool UdpEndpoint::something_completed() const {
  const Worker::Progress progress = worker_.progress();
  return !worker_.idle() && progress.done == progress.total;
}

Status UdpEndpoint::progress(Nanoseconds wait) {
  const Nanoseconds deadline = now() + wait;
  while (failure_.ok()) {
    failure_ = send_ready();
    if (!failure_.ok() || woken_.exchange(false) || something_completed() || worker_.idle()) break;
    if (receive()) continue;
    // Only now is a result known to be late: nothing that has arrived is unread, however long this thread was stopped.
    const Nanoseconds start = now();
    failure_ = contact_.check(start);
    const std::size_t in_flight = worker_.in_flight();
    worker_.on_tick(start);
    if (worker_.in_flight() < in_flight) continue;
    if (start >= deadline) break;
    socket_.wait_readable(std::min(deadline, worker_.next_deadline().value_or(deadline)) - start);
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
  const std::size_t largest = wire::packet_size(std::size_t{config_.block_size} * config_.blocks_per_chunk, config_.blocks_per_chunk);
  bool more = true;
  while (more) {
    while (std::uint8_t* packet = sender_.reserve(largest)) {
      const std::optional<Pass> pass = worker_.next_pass(now());
      more = pass.has_value();
      const std::size_t size = more ? wire::packet_size(pass->words, pass->exponents) : 0;
      sender_.shrink(size);
      if (!more) break;
      send(*pass, packet, size);
    }
    const Status status = sender_.flush();
    if (!status.ok()) return status;
  }
  return {};
}

void UdpEndpoint::send(const Pass& pass, std::uint8_t* packet, std::size_t size) {
  worker_.fill_exponents(pass, wire::exponents_of(packet), false);
  worker_.fill_words(pass, wire::words_of(packet, pass.exponents), numerics::Store::kBigEndian);
  wire::seal({.kind = wire::Kind::kUpdate,
              .job = config_.job,
              .secret = config_.secret,
              .worker = static_cast<std::uint16_t>(config_.worker),
              .slot = pass.slot,
              .epoch = pass.epoch,
              .fingerprint = pass.fingerprint,
              .words = pass.words,
              .exponents = pass.exponents,
              .code = 0},
             packet, size);
  sender_.add(switch_[pass.slot % switch_.size()], {packet, size});
  contact_.sent(pass.retransmission);
  ++statistics_.packets_sent;
  statistics_.bytes_sent += size + headers_;
}

void UdpEndpoint::on_packet(std::span<const std::uint8_t> packet, const Address& from, Nanoseconds arrival) {
  if (loss_.drops()) {
    ++statistics_.packets_dropped;
    return;
  }
  ++statistics_.packets_received;
  statistics_.bytes_received += packet.size() + headers_;
  wire::Header header;
  const bool ours = wire::parse(packet, header) == wire::ParseResult::kOk && header.kind != wire::Kind::kUpdate &&
                    header.job == config_.job && header.secret == config_.secret &&
                    from == switch_[header.slot % switch_.size()];
  if (!ours) {
    ++statistics_.packets_rejected;
    return;
  }
  contact_.answered();
  on_reply(header, packet, arrival);
}

void UdpEndpoint::on_reply(const wire::Header& header, std::span<const std::uint8_t> packet, Nanoseconds arrival) {
  const auto payload = packet.subspan(wire::kHeaderSize);
  switch (header.kind) {
    case wire::Kind::kResult:
      on_result(header, packet.data(), arrival);
      break;
    case wire::Kind::kPending:
      worker_.on_pending(header.slot, header.epoch, arrival);
      pending_.remember(header.slot, header.epoch, payload);
      break;
    case wire::Kind::kRefused:
      failure_ = contact_.refusal(static_cast<wire::Refusal>(header.code));
      break;
    case wire::Kind::kAbort:
      failure_ = contact_.abort(header.code, payload);
      break;
    case wire::Kind::kUpdate:
      break;
  }
}

void UdpEndpoint::on_result(const wire::Header& header, const std::uint8_t* packet, Nanoseconds arrival) {
  const Result result{.slot = header.slot,
                      .epoch = header.epoch,
                      .fingerprint = header.fingerprint,
                      .words = header.words,
                      .exponents = header.exponents,
                      .word_data = wire::words_of(packet, header.exponents),
                      .exponent_data = wire::exponents_of(packet),
                      .order = numerics::Order::kBigEndian};
  if (worker_.on_result(result, arrival) != ResultVerdict::kAccepted) ++statistics_.packets_rejected;
}

std::vector<std::uint32_t> UdpEndpoint::missing() {
  const std::optional<Pass> oldest = worker_.oldest_in_flight();
  return oldest ? pending_.missing(oldest->slot, oldest->epoch) : std::vector<std::uint32_t>{};
}

}  // namespace

std::unique_ptr<Endpoint> make_udp_endpoint(const EndpointConfig& config) {
  return std::make_unique<UdpEndpoint>(config);
}

}  // namespace jaxina
