// DatagramSender: collects packets and sends them in few system calls. Equally long packets to one destination become
// one message with UDP_SEGMENT, and sendmmsg sends many messages. Packets are stored in an arena, so a packet that goes
// to many destinations is stored once. Not thread-safe.
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

// What happens to packets that the network does not accept at once.
enum class WhenFull : std::uint8_t {
  // They are dropped, because a server of many must not wait for one of them. Packets whose next hop is unresolved stay
  // in the send buffer for seconds. So these are dropped as soon as a quarter of the buffer is in use.
  kDrop,
  kWait,  // flush() waits for room, at most kMaxSendWait in total
};
inline constexpr Nanoseconds kMaxSendWait = 100'000'000;

enum class Priority : std::uint8_t {
  kNormal,
  // For answers to unknown senders. They are sent after the others, and dropped while a quarter of the send buffer is
  // in use. This leaves room even if they go to hosts that do not exist, whose packets stay in the buffer for seconds.
  kLow,
};

class DatagramSender {
 public:
  DatagramSender(UdpSocket& socket, WhenFull when_full);

  // Returns room for a packet of `size` bytes, aligned to 4 bytes, valid until the next flush(). Returns nullptr if a
  // flush() is needed first.
  std::uint8_t* reserve(std::size_t size);
  // Gives back the unused end of the latest reserve(). `size` is what the packet really takes.
  void shrink(std::size_t size);
  // Queues a packet that lies in reserved room. Returns its number within the message that will carry it: if DF is set,
  // the kernel uses this number as the packet's IP identification.
  //
  // Packets to one destination leave in order, per priority. If all of them name a sequence, they leave in order only
  // per sequence. Then equally long packets of different sequences can share a message, even if other packets were
  // queued between them.
  std::size_t add(const Address& to, std::span<const std::uint8_t> packet, Priority priority = Priority::kNormal,
                  std::optional<std::uint32_t> sequence = std::nullopt);
  // Sends the queued packets. A message that cannot be sent is counted and dropped, as if the network had lost it.
  // Returns an error (kSystem) only if this socket can never send.
  Status flush();

  std::uint64_t packets_unsent() const { return packets_unsent_; }
  // The destinations that cannot be reached, as sending found since the last call of take_unreachable().
  std::vector<Address> take_unreachable();

 private:
  struct Message {
    std::size_t destination = 0;
    std::vector<iovec> parts = {};  // runs of whole packets that are adjacent in memory
    std::size_t packets = 0;
    std::size_t bytes = 0;
    std::size_t segment = 0;
    Priority priority = Priority::kNormal;
  };
  struct PacketSequence {
    std::uint32_t name;
    std::size_t message;  // the message of the sequence's latest packet
  };
  struct Destination {
    Address address;
    std::vector<std::size_t> open = {};  // messages that accept another packet: the latest one of each segment size
    std::vector<PacketSequence> sequences = {};  // sequences that have packets queued
    std::size_t latest_sequence = 0;             // cache: most packets follow one of the same sequence
    // After the kernel refused segmentation, the next `pause` flushes go without it; `segments_from` is the flush that
    // tries it again. Each further refusal doubles the pause.
    std::uint64_t segments_from = 0, pause = 0;
    bool hop_resolved = true;
    Nanoseconds ask_hop_at = 0;  // when hop_resolved is too old to be used
  };
  struct alignas(cmsghdr) Control {
    char bytes[CMSG_SPACE(sizeof(std::uint16_t)) + CMSG_SPACE(sizeof(in6_pktinfo))];
  };

  Destination& destination_for(const Address& to);
  PacketSequence& sequence_of(Destination& destination, std::uint32_t name);
  // The open message that such a packet may join, or else a new one.
  std::size_t message_for(Destination& destination, std::size_t size, Priority priority,
                          const PacketSequence* sequence);
  void prepare(msghdr& header, Control& control, Destination& destination, Message& message);
  void add_controls(msghdr& header, Control& control, const Address& to, const Message& message);
  bool crowded() const { return socket_.send_used() >= socket_.send_limit() / 4; }
  // Whether a packet to there would stay in the send buffer, because its next hop is unresolved.
  bool would_stay_queued(Destination& destination);
  void send_normal_priority();
  void send_low_priority();
  // Sends at most `most` messages, starting with queued[done]. Moves `done` past the messages that were sent or
  // dropped.
  void send_from(const std::vector<std::size_t>& queued, std::size_t& done, std::size_t most);
  void send_one_by_one(Destination& destination, const Message& message);
  void pause_segments(Destination& destination);
  // Called after a failed call: whether to try again. Waits for room first if the policy is kWait.
  bool try_again(int error);
  bool wait_for_room(int error);
  void give_up(int error, const Address& to, std::size_t packets);
  void clear();

  UdpSocket& socket_;
  WhenFull when_full_;
  std::optional<NextHops> next_hops_;  // only with kDrop
  std::vector<std::uint8_t> arena_;
  std::size_t used_ = 0, last_reserved_ = 0;
  std::vector<Destination> destinations_;
  std::unordered_map<Address, std::size_t, HashAddress> index_;
  std::size_t last_destination_ = 0;
  std::vector<Message> messages_;  // in the order they were begun; kept between flushes to reuse their memory
  std::size_t begun_ = 0;
  std::vector<std::size_t> queued_, low_;  // indices of the messages to send, in this order
  std::vector<mmsghdr> headers_;
  std::vector<Control> controls_;
  Status status_;                               // the result of this flush
  std::optional<Nanoseconds> wait_until_ = {};  // set in this flush once it has had to wait
  bool retried_ = false;                        // the current message was tried again already
  bool full_ = false;                           // the last message was not sent because there was no room
  std::uint64_t flushes_ = 0;
  std::uint64_t packets_unsent_ = 0;
  std::vector<Address> unreachable_;
};

}  // namespace jaxina::net
