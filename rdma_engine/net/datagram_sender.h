// Collects packets and sends them in few system calls: equal packets to one destination become one message with
// UDP_SEGMENT, and sendmmsg sends all messages. Packets lie in an arena, so that one packet may go to many destinations
// and is stored once.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "rdma_engine/errors.h"
#include "rdma_engine/net/next_hops.h"
#include "rdma_engine/net/socket_address.h"
#include "rdma_engine/net/udp_socket.h"

namespace jaxina::net {

// What happens to packets that the network does not take at once.
enum class WhenFull : std::uint8_t {
  // They are lost: whoever serves many must not wait for one of them. Packets whose next hop is not known are lost
  // sooner,
  // while a quarter of the send buffer is taken: they lie there for seconds.
  kDrop,
  kWait,  // flush() waits for room, at most kMaxSendWait in all
};
inline constexpr Nanoseconds kMaxSendWait = 100'000'000;

enum class Priority : std::uint8_t {
  kNormal,
  // For answers to strangers. They are sent after the others, and dropped while a quarter of the send buffer is taken,
  // so that packets to hosts that do not exist, which lie there for seconds, leave room.
  kLow,
};

class DatagramSender {
 public:
  DatagramSender(UdpSocket& socket, WhenFull when_full);

  // Room for a packet of `size` bytes, aligned to 4; nullptr if a flush() is needed first. It stays until the flush.
  std::uint8_t* reserve(std::size_t size);
  // Gives back what the latest reserve() took too much.
  void shrink(std::size_t size);
  // Queues a packet that lies in reserved room. Returns its number among the packets that one message will carry, by
  // which the kernel numbers their IP identifications if DF is set. Packets to one destination leave in order for each
  // priority. If all of them name a stream, they leave in order for each stream: then equal packets of different
  // streams share a message, though others lie between them.
  std::size_t add(const Address& to, std::span<const std::uint8_t> packet, Priority priority = Priority::kNormal,
                  std::optional<std::uint32_t> stream = std::nullopt);
  // Sends what is queued. A message that cannot be sent is counted and
  // forgotten, as if the network had lost it. An error, kSystem, says that this socket can never send.
  Status flush();

  std::uint64_t packets_unsent() const { return packets_unsent_; }
  // Whether sending met the news that the other side cannot be reached; reading it clears it.
  bool take_unreachable();

 private:
  struct Message {
    std::size_t destination = 0;
    std::vector<iovec> parts = {};  // runs of whole packets that lie one after the other
    std::size_t packets = 0;
    std::size_t bytes = 0;
    std::size_t segment = 0;
    Priority priority = Priority::kNormal;
  };
  struct Stream {
    std::uint32_t name;
    std::size_t message;  // of its latest packet
  };
  struct Destination {
    Address address;
    std::vector<std::size_t> open = {};  // messages that take another packet: the latest one of each segment size
    std::vector<Stream> streams = {};    // that have packets queued
    std::size_t latest_stream = 0;       // most packets follow one of the same stream
    // Flushes to go without segmentation after it was refused, doubled each time it is refused again; then it is tried.
    std::uint64_t segments_from = 0, pause = 0;
    bool hop_resolved = true;
    Nanoseconds ask_hop_at = 0;  // when that is too old
  };
  struct alignas(cmsghdr) Control {
    char bytes[CMSG_SPACE(sizeof(std::uint16_t)) + CMSG_SPACE(sizeof(in6_pktinfo))];
  };

  Destination& destination_for(const Address& to);
  Stream& stream_of(Destination& destination, std::uint32_t name);
  // The message that such a packet joins, a new one if there is none.
  std::size_t message_for(Destination& destination, std::size_t size, Priority priority, const Stream* stream);
  void prepare(msghdr& header, Control& control, Destination& destination, Message& message);
  void add_controls(msghdr& header, Control& control, const Address& to, const Message& message);
  bool crowded() const { return socket_.send_used() >= socket_.send_limit() / 4; }
  // Whether a packet to there would lie in the send buffer.
  bool stays(Destination& destination);
  void send_normal_priority();
  void send_low_priority();
  // Sends at most `most` messages from queued[done] on and moves `done` past those that are dealt with.
  void send_from(const std::vector<std::size_t>& queued, std::size_t& done, std::size_t most);
  void send_one_by_one(Destination& destination, const Message& message);
  void pause_segments(Destination& destination);
  // After a failed call: whether another try makes sense. Waits for room if that is the policy.
  bool try_again(int error);
  bool wait_for_room(int error);
  void give_up(int error, std::size_t packets);
  void clear();

  UdpSocket& socket_;
  WhenFull when_full_;
  std::optional<NextHops> next_hops_;  // of who drops
  std::vector<std::uint8_t> arena_;
  std::size_t used_ = 0, last_reserved_ = 0;
  std::vector<Destination> destinations_;
  std::unordered_map<Address, std::size_t, HashAddress> index_;
  std::size_t last_destination_ = 0;
  std::vector<Message> messages_;  // in the order they were begun; kept between flushes for their memory
  std::size_t begun_ = 0;
  std::vector<std::size_t> queued_, low_;  // which of them are sent, in this order
  std::vector<mmsghdr> headers_;
  std::vector<Control> controls_;
  Status status_;                               // of this flush
  std::optional<Nanoseconds> wait_until_ = {};  // of this flush, once it has had to wait
  bool retried_ = false;                        // the message whose turn it is
  bool full_ = false;                           // the last message was not sent for want of room
  std::uint64_t flushes_ = 0;
  std::uint64_t packets_unsent_ = 0;
  bool unreachable_ = false;
};

}  // namespace jaxina::net
