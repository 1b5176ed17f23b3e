// Reads datagrams in batches: recvmmsg takes several messages, and with UDP_GRO each holds several packets.
#pragma once

#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "rdma_engine/net/socket_address.h"
#include "rdma_engine/net/udp_socket.h"

namespace jaxina::net {

// Adds up a cumulative counter of 32 bits that wraps.
class WrappingCounter {
 public:
  explicit WrappingCounter(std::uint32_t first = 0) : last_(first) {}
  void update(std::uint32_t value) {
    total_ += static_cast<std::uint32_t>(value - last_);
    last_ = value;
  }
  std::uint64_t total() const { return total_; }

 private:
  std::uint32_t last_;
  std::uint64_t total_ = 0;
};

class DatagramReceiver {
 public:
  explicit DatagramReceiver(UdpSocket& socket);

  // Takes what has arrived, up to a batch, without waiting, and calls visit(packet, from) for each packet, whose bytes
  // live until the next call. A packet from an address that cannot be answered is only counted. Returns how many came.
  template <typename Visit>
  std::size_t receive(Visit visit) {
    const std::size_t messages = fill();
    std::size_t packets = 0;
    for (std::size_t i = 0; i < messages; ++i) {
      const Message message = message_at(i);
      const bool answerable = can_be_answered(message.from);
      std::size_t begin = 0;
      do {  // an empty datagram is a packet too
        const std::size_t size = std::min(message.segment, message.bytes.size() - begin);
        if (answerable) visit(aligned(message.bytes.subspan(begin, size)), message.from);
        else ++unanswerable_;
        ++packets;
        begin += message.segment;
      } while (begin < message.bytes.size());
    }
    return packets;
  }

  // Whether the last receive() met an ICMP error instead of packets; reading it clears it.
  bool take_unreachable();

  // Packets that were dropped because their source is no address to answer.
  std::uint64_t unanswerable() const { return unanswerable_; }
  // Datagrams that the kernel dropped because the socket's buffer was full, as far as datagrams that came later have
  // told. Datagrams that the kernel had merged count as one.
  std::uint64_t overflows() const { return overflows_.total(); }
  // Whether any were dropped since the last call.
  bool take_overflow();

 private:
  struct Message {
    std::span<const std::uint8_t> bytes;
    std::size_t segment;  // each packet's size but the last one's
    const Address& from;
  };
  struct alignas(cmsghdr) Control {
    char bytes[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(in6_pktinfo)) + CMSG_SPACE(sizeof(std::uint32_t))];
  };

  std::size_t fill();
  Message message_at(std::size_t index);
  // Packets of odd sizes push the next one off its word boundary; such a packet is copied.
  std::span<const std::uint8_t> aligned(std::span<const std::uint8_t> packet);

  UdpSocket& socket_;
  std::vector<std::uint8_t> buffer_;
  std::vector<std::uint32_t> moved_;
  std::vector<iovec> parts_;
  std::vector<Control> controls_;
  std::vector<sockaddr_storage> sources_;
  std::vector<mmsghdr> headers_;
  Address from_;
  std::size_t batch_;  // messages to ask for
  bool unreachable_ = false;
  std::uint64_t unanswerable_ = 0;
  WrappingCounter overflows_;
  std::uint64_t overflows_taken_ = 0;
};

}  // namespace jaxina::net
