#include "rdma_engine/net/roce_socket.h"

#include <netinet/in.h>

#include <algorithm>
#include <cstring>

#include "rdma_engine/net/socket_address.h"
#include "rdma_engine/wire/packet.h"

namespace jaxina::roce {
namespace {

constexpr std::size_t kIpAndUdp = 20 + 8;

Address resolve_here(const std::string& host, std::uint16_t port) {
  const Address address = net::resolve(host, port, ErrorCode::kInvalidArgument);
  sockaddr_in v4{};
  if (net::family(address) == AF_INET) std::memcpy(&v4, address.bytes.data(), sizeof(v4));
  if (v4.sin_addr.s_addr == INADDR_ANY) {
    throw Error(ErrorCode::kInvalidArgument, "RoCE needs one IPv4 address of this host, not " +
                                                 net::to_string(address) + ": its checksum covers it");
  }
  return address;
}

std::array<std::uint8_t, 4> ip_of(const Address& address) {
  std::array<std::uint8_t, 4> ip;
  std::memcpy(ip.data(), &address.bytes[offsetof(sockaddr_in, sin_addr)], ip.size());
  return ip;
}

}  // namespace

RoceSocket::RoceSocket(const std::string& host, std::uint16_t port, IcrcPolicy policy, net::WhenFull when_full,
                       bool offload, Service service)
    : socket_(resolve_here(host, port),
              {.send_buffer = when_full == net::WhenFull::kDrop ? net::kSwitchSendBuffer : 0, .offload = offload}),
      receiver_(socket_),
      sender_(socket_, when_full),
      policy_(policy),
      service_(service) {
  // With DF the kernel numbers the packets of one call from 0, so their ICRCs can be computed here.
  const int discover = IP_PMTUDISC_DO;
  setsockopt(socket_.fd(), IPPROTO_IP, IP_MTU_DISCOVER, &discover, sizeof(discover));
  const Address local = socket_.local();
  flow_.source = ip_of(local);
  flow_.source_port = net::port_of(local);
}

std::string RoceSocket::address() const {
  std::string text;
  for (const std::uint8_t byte : flow_.source) text += (text.empty() ? "" : ".") + std::to_string(byte);
  return text;
}

void RoceSocket::send(const Write& write, std::size_t mtu, std::uint32_t& psn) {
  cut_into_packets(write, mtu, psn, [&](const Headers& headers, std::size_t offset, std::size_t size) {
    send_packet(write, headers, offset, size);
  });
}

void RoceSocket::send_packet(const Write& write, const Headers& headers, std::size_t offset, std::size_t size) {
  const std::size_t total = packet_size(headers, size);
  std::uint8_t* packet = sender_.reserve(total);
  if (packet == nullptr) {
    static_cast<void>(sender_.flush());  // packets that cannot be sent are lost, and the worker asks for them again
    packet = sender_.reserve(total);
  }
  write_packet(write, headers, offset, size, packet);
  flow_.destination = ip_of(write.peer);
  flow_.destination_port = net::port_of(write.peer);
  // No order is needed between queue pairs. So each is a packet sequence of its own, and equally long packets of their
  // messages may share a send call.
  const std::size_t number = sender_.add(write.peer, {packet, total}, net::Priority::kNormal, headers.qpn);
  const std::span<const std::uint8_t> covered(packet, total - kIcrcSize);
  store_icrc(icrc(flow_, {static_cast<std::uint16_t>(number), true}, covered), packet + covered.size());
  ++counters_[Counter::kPacketsSent];
  counters_[Counter::kBytesSent] += total + kIpAndUdp;
}

bool RoceSocket::take_apart(std::span<const std::uint8_t> datagram, Packet& packet) {
  ++counters_[Counter::kPacketsReceived];
  counters_[Counter::kBytesReceived] += datagram.size() + kIpAndUdp;
  if (parse(datagram, packet, service_) == ParseResult::kOk) return true;
  ++counters_[Counter::kRdmaMalformed];
  return false;
}

bool RoceSocket::is_sound(std::span<const std::uint8_t> datagram, const Address& from, const Packet& packet) {
  if (policy_ == IcrcPolicy::kIgnore) return true;
  const Flow flow{ip_of(from), flow_.source, net::port_of(from), flow_.source_port};
  if (check_.explain(flow, datagram.first(datagram.size() - kIcrcSize), packet.icrc)) return true;
  ++counters_[Counter::kRdmaWrongIcrc];
  return false;
}

Counters RoceSocket::counters() const {
  Counters counters = counters_;
  counters[Counter::kPacketsUnsent] = sender_.packets_unsent();
  counters[Counter::kPacketsUnanswerable] = receiver_.unanswerable();
  counters[Counter::kSocketOverflows] = receiver_.overflows();
  return counters;
}

}  // namespace jaxina::roce
