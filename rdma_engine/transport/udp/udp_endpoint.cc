// The endpoint of the udp transport: a session over one UDP socket.
#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rdma_engine/base/clock.h"
#include "rdma_engine/base/narrow.h"
#include "rdma_engine/datagrams/session.h"
#include "rdma_engine/encryption/encrypted_end.h"
#include "rdma_engine/net/datagram_receiver.h"
#include "rdma_engine/net/datagram_sender.h"
#include "rdma_engine/net/interfaces.h"
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

std::vector<Address> resolved(const std::vector<HostPort>& given) {
  std::vector<Address> addresses;
  for (const HostPort& one : given) {
    addresses.push_back(net::resolve(one.host, one.port, ErrorCode::kSwitchUnreachable));
    net::route_mtu(addresses.back());  // throws if there is no route
  }
  return addresses;
}

// The addresses at which the job is summed.
std::vector<Address> resolved_servers(const UdpConfig& config, std::uint32_t workers) {
  if (!config.at_workers) return resolved(config.addresses);
  std::vector<Address> addresses;
  for (const HostPort& one : config.addresses) {
    try {
      addresses.push_back(resolved({one}).front());
    } catch (const Error& error) {
      throw Error(ErrorCode::kWorkerLost, "worker " + std::to_string(addresses.size() % workers) +
                                              " cannot be reached: " + error.status().message);
    }
  }
  return addresses;
}

void check(const std::vector<Address>& addresses, const std::vector<Address>& switches) {
  if (addresses.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "the udp transport needs at least one address");
  }
  for (const std::vector<Address>& list : {addresses, switches}) {
    for (const Address& address : list) {
      if (net::family(address) == net::family(addresses.front())) continue;
      throw Error(ErrorCode::kInvalidArgument,
                  net::to_string(addresses.front()) + " and " + net::to_string(address) +
                      " take part in one job, but one address is IPv4 and the other IPv6: use one of them only");
    }
  }
}

// Slots with the same path share both the address and the switch.
std::uint32_t paths(std::size_t addresses, std::size_t switches, const JobShape& shape) {
  const std::size_t paths = switches == 0 ? addresses : std::lcm(addresses, switches);
  return narrow<std::uint32_t>(std::min<std::size_t>(paths, shape.slots()));
}

std::vector<SwitchContact> contacts_at(const std::vector<Address>& addresses, bool at_workers, std::uint32_t workers) {
  std::vector<SwitchContact> contacts;
  for (const Address& address : addresses) {
    const auto worker = narrow<std::uint32_t>(contacts.size() % workers);
    contacts.emplace_back(net::to_string(address), at_workers ? std::optional(worker) : std::nullopt);
  }
  return contacts;
}

SessionConfig session_config(const Membership& member, const UdpConfig& config, std::size_t addresses,
                             std::size_t switches) {
  const WorkerConfig stream{.shape = member.shape,
                            .timer = udp::kTimer,
                            .paths = paths(addresses, switches, member.shape),
                            .window = udp::window_for(config.first_window, config.workers_per_link)};
  SessionConfig session{.job = member.job, .secret = member.secret, .stream = stream};
  session.worker = narrow<std::uint16_t>(member.worker);
  session.switches = narrow<std::uint32_t>(switches);
  session.checksum = config.checksums && !config.key ? wire::Checksum::kRequired : wire::Checksum::kOptional;
  session.writes_crc = !config.key;
  return session;
}

// Where this process takes packets: at its own address if it has one of the servers' family.
Address own_address(const UdpConfig& config, int family) {
  const Address any = net::resolve(family == AF_INET6 ? "::" : "0.0.0.0", 0, ErrorCode::kSystem);
  if (config.host.empty()) return any;
  const Address own = net::resolve(config.host, 0, ErrorCode::kInvalidArgument);
  if (net::family(own) == family) return own;
  throw Error(ErrorCode::kInvalidArgument,
              "this process takes packets at " + net::interface_of(config.host) +
                  ", but the addresses of the job are " + (family == AF_INET6 ? "IPv6" : "IPv4") +
                  ": let JAXINA_INTERFACE name an interface or a subnet with such an address");
}

// Throws Error(kInvalidArgument) if the job's packets would be cut into fragments on their way, or are no datagrams.
void check_size(const JobShape& shape, bool encrypted, const std::vector<Address>& destinations) {
  const std::size_t size = shape.packet_size() + (encrypted ? encryption::kOverhead : 0);
  for (const Address& address : destinations) {
    const std::size_t needed = size + network_headers(address), mtu = net::route_mtu(address);
    if (needed <= mtu && size <= wire::kMaxPacketSize) continue;
    throw Error(ErrorCode::kInvalidArgument,
                "packets of " + std::to_string(needed) + " bytes are too big for the way from " +
                    net::interface_of(net::route_source(address)) + " to " + net::to_string(address) +
                    ", whose MTU is " + std::to_string(mtu) +
                    ": lower JAXINA_BLOCKS_PER_CHUNK or JAXINA_BLOCK_SIZE, or use an interface with a larger MTU");
  }
}

std::optional<encryption::EncryptedEnd> encrypted_end(const Membership& member, const UdpConfig& config) {
  if (!config.key) return std::nullopt;
  if (!config.switches.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                "switches that combine updates cannot read encrypted ones: use udp or direct, or leave "
                "JAXINA_ENCRYPTION out");
  }
  return encryption::EncryptedEnd(*config.key, member.job, encryption::Role::kWorker,
                                  narrow<std::uint16_t>(member.worker), config.addresses.size());
}

class UdpEndpoint final : public SwitchedEndpoint {
 public:
  UdpEndpoint(const Membership& member, const UdpConfig& config, std::vector<Address> addresses,
              std::vector<Address> switches)
      : SwitchedEndpoint(member.shape, contacts_at(addresses, config.at_workers, member.shape.workers()), kSpins),
        addresses_(std::move(addresses)),
        switches_(std::move(switches)),
        socket_(own_address(config, net::family(addresses_.front())), {.report_unreachable = true}),
        receiver_(socket_),
        sender_(socket_, net::WhenFull::kWait),
        session_(session_config(member, config, addresses_.size(), switches_.size())),
        encrypted_(encrypted_end(member, config)),
        loss_(config.loss.share, config.loss.seed),
        headers_(network_headers(addresses_.front())) {}

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
  void on_packet(std::span<std::uint8_t> packet, const Address& from, Nanoseconds arrival);
  void reject(Nanoseconds arrival);
  // The next packet to send, in room for the largest one.
  struct Ready {
    Session::Outgoing out;
    std::size_t size;  // on the wire
  };
  std::optional<Ready> next_packet(Nanoseconds time, std::uint8_t* room);
  std::size_t overhead() const { return encrypted_ ? encryption::kOverhead : 0; }

  const Address& address_of(std::size_t slot) const { return addresses_[slot % addresses_.size()]; }
  const Address& switch_of(std::size_t slot) const { return switches_[slot % switches_.size()]; }
  void on_unreachable_destinations(const std::vector<Address>& destinations);

  std::vector<Address> addresses_;  // slot i belongs to addresses_[i % size]
  std::vector<Address> switches_;   // that may combine its updates: switches_[i % size]; empty: none does
  net::UdpSocket socket_;
  net::DatagramReceiver receiver_;
  net::DatagramSender sender_;
  Session session_;
  std::optional<encryption::EncryptedEnd> encrypted_;  // if the job's packets are encrypted
  net::LossFilter loss_;
  std::size_t headers_;
  Counters counters_;
};

bool UdpEndpoint::receive() {
  const Nanoseconds arrival = now();
  const std::size_t packets =
      receiver_.receive([&](std::span<std::uint8_t> packet, const Address& from) { on_packet(packet, from, arrival); });
  if (receiver_.take_overflow()) session_.worker().on_overflow();
  on_unreachable_destinations(sender_.take_unreachable());
  on_unreachable_destinations(receiver_.take_unreachable());
  return packets > 0;
}

void UdpEndpoint::on_unreachable_destinations(const std::vector<Address>& destinations) {
  for (const Address& destination : destinations) {
    const auto found = std::find(addresses_.begin(), addresses_.end(), destination);
    if (found != addresses_.end()) on_unreachable(static_cast<std::size_t>(found - addresses_.begin()));
  }
}

std::optional<UdpEndpoint::Ready> UdpEndpoint::next_packet(Nanoseconds time, std::uint8_t* room) {
  std::uint8_t* const packet = encrypted_ ? room + encryption::kClearBytes : room;
  const std::optional<Session::Outgoing> out = session_.next_packet(time, packet);
  if (!out) return std::nullopt;
  if (!encrypted_) return Ready{*out, out->size};
  const std::size_t size = encrypted_->encrypt({packet, out->size}, room);
  if (size == 0) fail({ErrorCode::kJobRejected, "the job's keys are used up: start the job again"});
  return size > 0 ? std::optional(Ready{*out, size}) : std::nullopt;
}

void UdpEndpoint::send_ready() {
  // The worker starts a pass's timer when it returns the pass, so reserve room for the largest packet first.
  bool more = true;
  while (more && !failed()) {
    Nanoseconds time = 0;
    for (int packets = 0; std::uint8_t* room = sender_.reserve(session_.max_packet_size() + overhead()); ++packets) {
      if (packets % kPacketsPerReading == 0) time = now();
      const std::optional<Ready> ready = next_packet(time, room);
      more = ready.has_value();
      sender_.shrink(more ? ready->size : 0);
      if (!more) break;
      const Session::Outgoing& out = ready->out;
      const bool direct = switches_.empty() || out.transmission == wire::Transmission::kDirect;
      sender_.add(direct ? address_of(out.pass.slot) : switch_of(out.pass.slot), {room, ready->size});
      on_sent(out.pass);
      ++counters_[Counter::kPacketsSent];
      counters_[Counter::kBytesSent] += ready->size + headers_;
    }
    fail(sender_.flush());
  }
}

void UdpEndpoint::reject(Nanoseconds arrival) {
  ++counters_[Counter::kPacketsRejected];
  if (recorder_) recorder_->add({.kind = TraceEvent::Kind::kRejected, .time = arrival});
}

void UdpEndpoint::on_packet(std::span<std::uint8_t> arrived, const Address& from, Nanoseconds arrival) {
  if (loss_.drops()) {
    ++counters_[Counter::kPacketsDropped];
    if (recorder_) recorder_->add({.kind = TraceEvent::Kind::kDropped, .time = arrival});
    return;
  }
  ++counters_[Counter::kPacketsReceived];
  counters_[Counter::kBytesReceived] += arrived.size() + headers_;
  const auto decrypted = encrypted_ ? encrypted_->decrypt(arrived) : std::optional(arrived);
  if (!decrypted) return reject(arrival);
  const std::span<const std::uint8_t> packet = *decrypted;
  const std::optional<wire::Header> header = session_.accept(packet);
  const bool from_switch = header && !switches_.empty() && from == switch_of(header->slot);
  if (!header || (!from_switch && from != address_of(header->slot))) return reject(arrival);
  const Session::Reply reply =
      from_switch ? session_.on_switch_reply(*header, packet, arrival) : session_.on_reply(*header, packet, arrival);
  // A switch on the way may answer for itself. All other replies are the server's.
  if (!from_switch || reply != Session::Reply::kStale) on_answer(header->slot);
  switch (reply) {
    case Session::Reply::kResult: return;
    case Session::Reply::kStale: ++counters_[Counter::kPacketsRejected]; return;
    case Session::Reply::kPending:
    case Session::Reply::kRefused:
    case Session::Reply::kAborted: return on_notice(*header, packet.subspan(wire::kHeaderSize));
  }
}

}  // namespace

std::unique_ptr<Endpoint> make_endpoint(const Membership& member, const UdpConfig& config) {
  std::vector<Address> addresses = resolved_servers(config, member.shape.workers()),
                       switches = resolved(config.switches);
  check(addresses, switches);
  check_size(member.shape, config.key.has_value(), addresses);
  check_size(member.shape, config.key.has_value(), switches);
  return std::make_unique<UdpEndpoint>(member, config, std::move(addresses), std::move(switches));
}

}  // namespace jaxina
