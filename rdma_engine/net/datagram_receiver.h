// DatagramReceiver: reads datagrams in batches. recvmmsg takes several messages, and with UDP_GRO each message holds
// several packets. Not thread-safe.
#pragma once

#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "rdma_engine/net/socket_address.h"
#include "rdma_engine/net/udp_socket.h"

namespace jaxina::net {

// Extends a cumulative 32-bit counter that wraps around to 64 bits.
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

  // Takes the packets that have arrived, up to one batch, without waiting. Calls visit(packet, from) for each packet;
  // its bytes may be changed, and are
  // valid until the next call. A packet whose source cannot be answered is only counted. Returns the
  // number of packets.
  template <typename Visit>
  std::size_t receive(Visit visit) {
    const std::size_t messages = fill();
    std::size_t packets = 0;
    for (std::size_t i = 0; i < messages; ++i) {
      const Message message = message_at(i);
      const bool answerable = can_be_answered(message.from);
      std::size_t begin = 0;
      do {  // do-while: an empty datagram is a packet too
        const std::size_t size = std::min(message.segment, message.bytes.size() - begin);
        if (answerable) visit(aligned(message.bytes.subspan(begin, size)), message.from);
        else ++unanswerable_;
        ++packets;
        begin += message.segment;
      } while (begin < message.bytes.size());
    }
    return packets;
  }

  // The destinations that ICMP errors called unreachable, as receive() found since the last call of take_unreachable().
  std::vector<Address> take_unreachable();

  // Packets that were dropped because their source address cannot be answered.
  std::uint64_t unanswerable() const { return unanswerable_; }
  // Datagrams that the kernel dropped because the socket's buffer was full. The kernel reports this only with later
  // datagrams, so the newest drops may be missing. Datagrams that the kernel had merged count as one.
  std::uint64_t overflows() const { return overflows_.total(); }
  // Whether any were dropped since the last call of take_overflow().
  bool take_overflow();

 private:
  struct Message {
    std::span<std::uint8_t> bytes;
    std::size_t segment;  // the size of each packet except the last, which may be shorter
    const Address& from;
  };
  struct alignas(cmsghdr) Control {
    char bytes[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(in6_pktinfo)) + CMSG_SPACE(sizeof(std::uint32_t))];
  };

  std::size_t fill();
  Message message_at(std::size_t index);
  // Returns the packet at an address aligned to a word. A packet of odd size misaligns the next one in a merged
  // message; such a packet is copied.
  std::span<std::uint8_t> aligned(std::span<std::uint8_t> packet);

  UdpSocket& socket_;
  std::vector<std::uint8_t> buffer_;
  std::vector<std::uint32_t> moved_;
  std::vector<iovec> parts_;
  std::vector<Control> controls_;
  std::vector<sockaddr_storage> sources_;
  std::vector<mmsghdr> headers_;
  Address from_;
  std::size_t batch_;  // messages to ask for in the next call
  std::vector<Address> unreachable_;
  std::uint64_t unanswerable_ = 0;
  WrappingCounter overflows_;
  std::uint64_t overflows_taken_ = 0;
};

}  // namespace jaxina::net
