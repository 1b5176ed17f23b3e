#include "rdma_engine/net/datagram_receiver.h"

#include <netinet/in.h>
#include <netinet/udp.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace jaxina::net {
namespace {

constexpr std::size_t kMessages = 64;
constexpr std::size_t kMessageSize = 65536;  // the largest datagram, and the most that UDP_GRO merges
// A batch should stay in a core's cache until it has been processed.
constexpr std::size_t kBatchBytes = std::size_t{512} << 10;

template <typename Value>
Value value_of(cmsghdr* control) {
  Value value;
  std::memcpy(&value, CMSG_DATA(control), sizeof(value));
  return value;
}

}  // namespace

DatagramReceiver::DatagramReceiver(UdpSocket& socket)
    : socket_(socket),
      buffer_(kMessages * kMessageSize),
      moved_(kMessageSize / 4),
      parts_(kMessages),
      controls_(kMessages),
      sources_(kMessages),
      headers_(kMessages),
      batch_(kMessages) {
  for (std::size_t i = 0; i < kMessages; ++i) {
    parts_[i] = {&buffer_[i * kMessageSize], kMessageSize};
    headers_[i].msg_hdr.msg_iov = &parts_[i];
    headers_[i].msg_hdr.msg_iovlen = 1;
    headers_[i].msg_hdr.msg_name = &sources_[i];
    headers_[i].msg_hdr.msg_control = &controls_[i];
  }
}

std::size_t DatagramReceiver::fill() {
  for (std::size_t i = 0; i < batch_; ++i) {
    headers_[i].msg_hdr.msg_namelen = sizeof(sockaddr_storage);
    headers_[i].msg_hdr.msg_controllen = sizeof(Control);
  }
  const int received = recvmmsg(socket_.fd(), headers_.data(), static_cast<unsigned>(batch_), MSG_DONTWAIT, nullptr);
  if (received <= 0) {
    if (received < 0 && errno != EAGAIN && errno != EINTR) socket_.take_unreachable(unreachable_);
    return 0;
  }
  const auto messages = static_cast<std::size_t>(received);
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < messages; ++i) bytes += headers_[i].msg_len;
  batch_ = std::clamp(kBatchBytes * messages / std::max<std::size_t>(bytes, 1), std::size_t{4}, kMessages);
  return messages;
}

DatagramReceiver::Message DatagramReceiver::message_at(std::size_t index) {
  msghdr& header = headers_[index].msg_hdr;
  const std::size_t size = headers_[index].msg_len;
  from_ = from_sockaddr(reinterpret_cast<const sockaddr*>(&sources_[index]), header.msg_namelen);
  std::size_t segment = size;
  for (cmsghdr* c = CMSG_FIRSTHDR(&header); c != nullptr; c = CMSG_NXTHDR(&header, c)) {
    if (c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_GRO) {
      const int value = value_of<int>(c);
      if (value > 0) segment = static_cast<std::size_t>(value);
    } else if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO && socket_.any_local()) {
      const in_addr local = value_of<in_pktinfo>(c).ipi_spec_dst;
      std::memcpy(from_.local.data(), &local, sizeof(local));
    } else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO && socket_.any_local()) {
      const in6_addr local = value_of<in6_pktinfo>(c).ipi6_addr;
      // A multicast group is not an address to answer from. Without one, the system chooses.
      if (!IN6_IS_ADDR_MULTICAST(&local)) std::memcpy(from_.local.data(), &local, sizeof(local));
    } else if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_RXQ_OVFL) {
      overflows_.update(value_of<std::uint32_t>(c));
    }
  }
  return {{&buffer_[index * kMessageSize], size}, std::max<std::size_t>(segment, 1), from_};
}

std::span<std::uint8_t> DatagramReceiver::aligned(std::span<std::uint8_t> packet) {
  if (reinterpret_cast<std::uintptr_t>(packet.data()) % alignof(std::uint32_t) == 0) return packet;
  std::memcpy(moved_.data(), packet.data(), packet.size());
  return {reinterpret_cast<std::uint8_t*>(moved_.data()), packet.size()};
}

std::vector<Address> DatagramReceiver::take_unreachable() { return std::exchange(unreachable_, {}); }

bool DatagramReceiver::take_overflow() { return std::exchange(overflows_taken_, overflows()) != overflows(); }

}  // namespace jaxina::net
