// The endpoint of the udp transport: a session over one UDP socket.
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "rdma_engine/base/clock.h"
#include "rdma_engine/base/narrow.h"
#include "rdma_engine/datagrams/session.h"
#include "rdma_engine/net/datagram_receiver.h"
#include "rdma_engine/net/datagram_sender.h"
#include "rdma_engine/net/loss_filter.h"
#include "rdma_engine/transport/switched_endpoint.h"
#include "rdma_engine/transport/udp/stream_limits.h"
#include "rdma_engine/wire/packet.h"

namespace jaxina {
namespace {

// The clock is read once for this many packets, which is some microseconds. Reading it for each packet took a thirtieth
// of the thread's time.
constexpr int kPacketsPerReading = 8;
// The socket is polled once more before the thread sleeps.
constexpr int kSpins = 1;

// Bytes that the UDP and IP headers add to a packet.
std::size_t network_headers(const Address& address) { return net::family(address) == AF_INET6 ? 8 + 40 : 8 + 20; }

std::vector<Address> switch_addresses(const UdpConfig& config) {
  if (config.ports.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "the udp transport needs at least one port of the switch");
  }
  std::vector<Address> addresses;
  for (const std::uint16_t port : config.ports) {
    addresses.push_back(net::resolve(config.address, port, ErrorCode::kSwitchUnreachable));
    net::route_mtu(addresses.back());  // throws if there is no route
  }
  return addresses;
}

Address any_address(int family) { return net::resolve(family == AF_INET6 ? "::" : "0.0.0.0", 0, ErrorCode::kSystem); }

class UdpEndpoint final : public SwitchedEndpoint {
 public:
  UdpEndpoint(const Membership& member, const UdpConfig& config, std::vector<Address> switch_ports)
      : SwitchedEndpoint(member.shape, net::to_string(switch_ports.front()), kSpins),
        switch_(std::move(switch_ports)),
        socket_(any_address(net::family(switch_.front())), {.report_unreachable = true}),
        receiver_(socket_),
        sender_(socket_, net::WhenFull::kWait),
        session_({.job = member.job,
                  .secret = member.secret,
                  .worker = narrow<std::uint16_t>(member.worker),
                  .stream = {.shape = member.shape,
                             .timer = udp::kTimer,
                             .paths = narrow<std::uint32_t>(switch_.size()),
                             .window = udp::window_for(config.first_window)},
                  .checksum = config.checksums ? wire::Checksum::kRequired : wire::Checksum::kOptional}),
        loss_(config.loss.share, config.loss.seed),
        headers_(network_headers(switch_.front())) {}

  Worker& worker() override { return session_.worker(); }

 private:
  Counters transport_counters() const override {
    Counters counters = counters_;
    counters[Counter::kPacketsUnsent] = sender_.packets_unsent();
    counters[Counter::kSocketOverflows] = receiver_.overflows();
    return counters;
  }
  void send_ready() override;
  bool receive() override;
  void sleep(Nanoseconds timeout) override { socket_.wait_readable(timeout); }
  void interrupt() override { socket_.interrupt(); }
  void on_packet(std::span<const std::uint8_t> packet, const Address& from, Nanoseconds arrival);

  std::vector<Address> switch_;  // the switch's addresses, one per port
  net::UdpSocket socket_;
  net::DatagramReceiver receiver_;
  net::DatagramSender sender_;
  Session session_;
  net::LossFilter loss_;
  std::size_t headers_;
  Counters counters_;
};

bool UdpEndpoint::receive() {
  const Nanoseconds arrival = now();
  const std::size_t packets = receiver_.receive(
      [&](std::span<const std::uint8_t> packet, const Address& from) { on_packet(packet, from, arrival); });
  if (receiver_.take_overflow()) session_.worker().on_overflow();
  if (sender_.take_unreachable() | receiver_.take_unreachable()) on_unreachable();
  return packets > 0;
}

void UdpEndpoint::send_ready() {
  // The worker starts a pass's timer when it returns the pass, so reserve room for the largest packet first.
  bool more = true;
  while (more && !failed()) {
    Nanoseconds time = 0;
    for (int packets = 0; std::uint8_t* packet = sender_.reserve(session_.max_packet_size()); ++packets) {
      if (packets % kPacketsPerReading == 0) time = now();
      const std::optional<Session::Outgoing> out = session_.next_packet(time, packet);
      more = out.has_value();
      sender_.shrink(more ? out->size : 0);
      if (!more) break;
      sender_.add(switch_[out->pass.slot % switch_.size()], {packet, out->size});
      on_sent(out->pass);
      ++counters_[Counter::kPacketsSent];
      counters_[Counter::kBytesSent] += out->size + headers_;
    }
    fail(sender_.flush());
  }
}

void UdpEndpoint::on_packet(std::span<const std::uint8_t> packet, const Address& from, Nanoseconds arrival) {
  if (loss_.drops()) {
    ++counters_[Counter::kPacketsDropped];
    if (recorder_) recorder_->add({.kind = TraceEvent::Kind::kDropped, .time = arrival});
    return;
  }
  ++counters_[Counter::kPacketsReceived];
  counters_[Counter::kBytesReceived] += packet.size() + headers_;
  const std::optional<wire::Header> header = session_.accept(packet);
  if (!header || from != switch_[header->slot % switch_.size()]) {
    ++counters_[Counter::kPacketsRejected];
    if (recorder_) recorder_->add({.kind = TraceEvent::Kind::kRejected, .time = arrival});
    return;
  }
  on_answer();
  switch (session_.on_reply(*header, packet, arrival)) {
    case Session::Reply::kResult: return;
    case Session::Reply::kStale: ++counters_[Counter::kPacketsRejected]; return;
    case Session::Reply::kPending:
    case Session::Reply::kRefused:
    case Session::Reply::kAborted: return on_notice(*header, packet.subspan(wire::kHeaderSize));
  }
}

}  // namespace

std::unique_ptr<Endpoint> make_endpoint(const Membership& member, const UdpConfig& config) {
  return std::make_unique<UdpEndpoint>(member, config, switch_addresses(config));
}

}  // namespace jaxina
