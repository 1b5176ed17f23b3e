// Passes datagrams on between workers and a switch, with faults.
#include "tests/native/udp_relay.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>

#include "rdma_engine/net/socket_address.h"

namespace jaxina::testing {
namespace {

Address loopback(std::uint16_t port) { return net::resolve("127.0.0.1", port, ErrorCode::kSystem); }

constexpr net::SocketOptions kPlain{.offload = false};

}  // namespace

UdpRelay::UdpRelay(std::uint16_t switch_port, Faults faults, std::uint64_t seed, Eavesdropper eavesdropper)
    : switch_(loopback(switch_port)),
      faults_(faults),
      random_(seed),
      eavesdropper_(std::move(eavesdropper)),
      front_(loopback(0), kPlain) {
  thread_ = std::thread([this] { run(); });
}

UdpRelay::~UdpRelay() { stop(); }

void UdpRelay::stop() {
  stopping_ = true;
  if (thread_.joinable()) thread_.join();
}

std::uint16_t UdpRelay::port() const { return net::port_of(front_.local()); }

void UdpRelay::run() {
  while (!stopping_) {
    std::vector<pollfd> waits{{front_.fd(), POLLIN, 0}};
    for (const Client& client : clients_) waits.push_back({client.back->fd(), POLLIN, 0});
    poll(waits.data(), waits.size(), held_.empty() ? 20 : 1);
    for (int i = 0; i < 64 && read_from(front_, nullptr, nullptr); ++i) {
    }
    for (std::size_t c = 0; c < clients_.size(); ++c) {
      for (int i = 0; i < 64 && read_from(*clients_[c].back, &front_, &clients_[c].address); ++i) {
      }
    }
    release(Clock::now());
  }
}

bool UdpRelay::read_from(net::UdpSocket& socket, net::UdpSocket* fixed_out, const Address* fixed_to) {
  std::vector<std::uint8_t> bytes(65536);
  sockaddr_storage source{};
  socklen_t size = sizeof(source);
  const ssize_t received =
      recvfrom(socket.fd(), bytes.data(), bytes.size(), MSG_DONTWAIT, reinterpret_cast<sockaddr*>(&source), &size);
  if (received < 0) return false;
  bytes.resize(static_cast<std::size_t>(received));
  if (fixed_out != nullptr) {
    pass_on({std::move(bytes), fixed_out, *fixed_to});
    return true;
  }
  const Address from = net::from_sockaddr(reinterpret_cast<const sockaddr*>(&source), size);
  if (eavesdropper_) eavesdropper_(bytes, from);
  auto client = std::find_if(clients_.begin(), clients_.end(), [&](const Client& c) { return c.address == from; });
  if (client == clients_.end()) {
    clients_.push_back({from, std::make_unique<net::UdpSocket>(loopback(0), kPlain)});
    client = clients_.end() - 1;
  }
  pass_on({std::move(bytes), client->back.get(), switch_});
  return true;
}

void UdpRelay::pass_on(Packet packet) {
  ++counts_.packets;
  if (chance() < faults_.lose) {
    ++counts_.lost;
    return;
  }
  if (faults_.flip > 0 && chance() < faults_.flip && !packet.bytes.empty()) {
    ++counts_.flipped;
    const std::uint64_t bit = random_() % (8 * packet.bytes.size());
    packet.bytes[bit / 8] ^= static_cast<std::uint8_t>(1u << bit % 8);
  }
  const int copies = chance() < faults_.duplicate ? 2 : 1;
  counts_.duplicated += copies - 1;
  const auto shared = std::make_shared<Packet>(std::move(packet));
  for (int copy = 0; copy < copies; ++copy) {
    Clock::time_point due{};
    if (chance() < faults_.delay) {
      ++counts_.delayed;
      due = Clock::now() + std::chrono::duration_cast<Clock::duration>(chance() * faults_.max_delay);
    }
    held_.push({due, arrivals_++, shared});
  }
}

void UdpRelay::release(Clock::time_point now) {
  for (; !held_.empty() && held_.top().due <= now; held_.pop()) {
    const Packet& packet = *held_.top().packet;
    // If the socket is full the packet is lost, as in a network whose queue is full.
    sendto(packet.out->fd(), packet.bytes.data(), packet.bytes.size(), MSG_DONTWAIT, net::as_sockaddr(packet.to),
           packet.to.size);
  }
}

}  // namespace jaxina::testing
