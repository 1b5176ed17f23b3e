// Collects packets and sends them in few system calls: equal packets to one destination become one message with
// UDP_SEGMENT, and sendmmsg sends all messages. Packets lie in an arena, so that one packet may go to many destinations
// and is stored once.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "rdma_engine/errors.h"
#include "rdma_engine/transport/udp/socket_address.h"
#include "rdma_engine/transport/udp/udp_socket.h"

namespace jaxina::udp {

class DatagramSender {
 public:
  explicit DatagramSender(UdpSocket& socket);

  // Room for a packet of `size` bytes, aligned to 4; nullptr if a flush() is needed first. It stays until the flush.
  std::uint8_t* reserve(std::size_t size);
  // Gives back what the latest reserve() took too much.
  void shrink(std::size_t size);
  // Queues a packet that lies in reserved room. Returns its number among the packets that one message will carry, by
  // which the kernel numbers their IP identifications if DF is set.
  std::size_t add(const Address& to, std::span<const std::uint8_t> packet);
  // Sends what is queued, in order for each destination, and waits (bounded) while the socket or the device is full. A
  // message that cannot be sent is counted and forgotten, as if the network had lost it; the first cause is returned,
  // unless it is that the other side cannot be reached, which take_unreachable() tells.
  Status flush();

  std::uint64_t packets_unsent() const { return packets_unsent_; }
  // Whether sending met the news that the other side cannot be reached; reading it clears it.
  bool take_unreachable();

 private:
  struct Message {
    std::size_t first_part;  // in its destination's parts
    std::size_t parts;
    std::size_t packets;
    std::size_t bytes;
    std::size_t segment;
  };
  struct Destination {
    Address address;
    std::vector<iovec> parts;  // runs of whole packets that lie one after the other
    std::vector<Message> messages;
    bool open = false;  // the last message takes another packet
  };
  struct Queued {
    std::size_t destination, message;
  };
  struct alignas(cmsghdr) Control {
    char bytes[CMSG_SPACE(sizeof(std::uint16_t)) + CMSG_SPACE(sizeof(in_pktinfo))];
  };
  struct HashAddress {
    std::size_t operator()(const Address& address) const {
      return std::hash<std::string_view>{}({reinterpret_cast<const char*>(address.bytes.data()), address.size});
    }
  };

  Destination& destination_for(const Address& to);
  void prepare(msghdr& header, Control& control, Destination& destination, const Message& message);
  void add_controls(msghdr& header, Control& control, const Address& to, const Message& message);
  // Sends messages from queued_[done] on and moves `done` past those that are dealt with.
  void send_from(std::size_t& done);
  void send_one_by_one(Destination& destination, const Message& message);
  // Waits for room after a failed call; whether another try makes sense.
  bool try_again(int error, int attempt);
  void give_up(int error, std::size_t packets);
  void clear();

  UdpSocket& socket_;
  bool segments_;
  std::vector<std::uint8_t> arena_;
  std::size_t used_ = 0, last_reserved_ = 0;
  std::vector<Destination> destinations_;
  std::unordered_map<Address, std::size_t, HashAddress> index_;
  std::size_t last_destination_ = 0;
  std::vector<Queued> queued_;  // messages in the order they were begun
  std::vector<mmsghdr> headers_;
  std::vector<Control> controls_;
  Status status_;     // of this flush
  int attempts_ = 0;  // failed in a row
  std::uint64_t packets_unsent_ = 0;
  bool unreachable_ = false;
};

}  // namespace jaxina::udp
