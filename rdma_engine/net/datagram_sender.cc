#include "rdma_engine/net/datagram_sender.h"

#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "rdma_engine/base/assert.h"
#include "rdma_engine/wire/packet.h"

namespace jaxina::net {
namespace {

// The most bytes that one flush sends. Small enough to stay in a core's cache between filling and the kernel's copy.
constexpr std::size_t kArenaSize = std::size_t{512} << 10;
// How many destinations are remembered between flushes: more than a job has workers. Beyond that, all are forgotten.
constexpr std::size_t kMaxRemembered = 4096;
constexpr std::size_t kMaxMessagesPerCall = 64;
constexpr std::size_t kMaxOpen = 8;             // messages of different segment sizes that wait for more packets
constexpr Nanoseconds kHopAge = 1'000'000'000;  // how long the kernel's answer about a next hop is used
constexpr std::size_t kMaxUnreachable = 64;     // that are remembered until somebody asks
constexpr std::uint64_t kFirstPause = 16, kLongestPause = std::uint64_t{1} << 16;  // in flushes

// Errors that mean "not with UDP_SEGMENT": an old kernel, a device without checksum offload, or a packet above the
// route's MTU.
bool refuses_segments(int error) {
  return error == EINVAL || error == EIO || error == EMSGSIZE || error == EOPNOTSUPP || error == ENOPROTOOPT;
}

// The socket's buffer, the device's queue or the kernel's memory is full.
bool means_full(int error) { return error == EAGAIN || error == ENOBUFS || error == ENOMEM; }

// Errors after which this socket can never send. All others come and go with routes, firewalls and devices, or concern
// one destination.
bool is_permanent(int error) {
  return error == EBADF || error == ENOTSOCK || error == EPIPE || error == EAFNOSUPPORT || error == EFAULT;
}

Nanoseconds now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

DatagramSender::DatagramSender(UdpSocket& socket, WhenFull when_full)
    : socket_(socket),
      when_full_(when_full),
      arena_(kArenaSize),
      headers_(kMaxMessagesPerCall),
      controls_(kMaxMessagesPerCall) {
  if (when_full == WhenFull::kDrop) next_hops_.emplace();
}

std::uint8_t* DatagramSender::reserve(std::size_t size) {
  if (used_ + size > arena_.size()) return nullptr;
  last_reserved_ = used_;
  used_ += wire::padded(size);
  return &arena_[last_reserved_];
}

void DatagramSender::shrink(std::size_t size) { used_ = last_reserved_ + wire::padded(size); }

DatagramSender::Destination& DatagramSender::destination_for(const Address& to) {
  // A result goes to all workers in turn, so the destination is usually the last one or the one after it.
  if (!destinations_.empty()) {
    if (destinations_[last_destination_].address == to) return destinations_[last_destination_];
    const std::size_t next = (last_destination_ + 1) % destinations_.size();
    if (destinations_[next].address == to) {
      last_destination_ = next;
      return destinations_[next];
    }
  }
  const auto [found, added] = index_.try_emplace(to, destinations_.size());
  if (added) {
    destinations_.push_back({.address = to});
  }
  last_destination_ = found->second;
  return destinations_[last_destination_];
}

DatagramSender::PacketSequence& DatagramSender::sequence_of(Destination& destination, std::uint32_t name) {
  std::vector<PacketSequence>& sequences = destination.sequences;
  if (destination.latest_sequence < sequences.size() && sequences[destination.latest_sequence].name == name) {
    return sequences[destination.latest_sequence];
  }
  const auto found =
      std::find_if(sequences.begin(), sequences.end(), [name](const PacketSequence& s) { return s.name == name; });
  destination.latest_sequence = static_cast<std::size_t>(found - sequences.begin());
  return found != sequences.end() ? *found : sequences.emplace_back(name, 0);
}

std::size_t DatagramSender::message_for(Destination& destination, std::size_t size, Priority priority,
                                        const PacketSequence* sequence) {
  std::vector<std::size_t>& open = destination.open;
  for (const std::size_t index : open) {
    const Message& message = messages_[index];
    // Only a message's last packet may be shorter. With sequences, a shorter packet does not join: it would close the
    // message to packets of other sequences.
    const bool fits = sequence != nullptr ? size == message.segment && index >= sequence->message
                                          : size <= message.segment && priority == message.priority;
    if (fits && message.bytes + size <= wire::kMaxPacketSize) return index;
  }
  if (begun_ == messages_.size()) messages_.emplace_back();
  Message& message = messages_[begun_];
  message.destination = last_destination_;
  message.segment = size;
  message.priority = priority;
  (priority == Priority::kLow ? low_ : queued_).push_back(begun_);
  if (sequence == nullptr || open.size() == kMaxOpen) {
    open.clear();
  } else {
    std::erase_if(open, [&](std::size_t index) { return messages_[index].segment == size; });
  }
  if (socket_.segments() && destination.segments_from <= flushes_) open.push_back(begun_);
  return begun_++;
}

std::size_t DatagramSender::add(const Address& to, std::span<const std::uint8_t> packet, Priority priority,
                                std::optional<std::uint32_t> name) {
  Destination& destination = destination_for(to);
  // A packet without a sequence would overtake those with one.
  JAXINA_ASSERT(name.has_value() || destination.sequences.empty());
  PacketSequence* const sequence = name ? &sequence_of(destination, *name) : nullptr;
  const std::size_t index = message_for(destination, packet.size(), priority, sequence);
  if (sequence != nullptr) sequence->message = index;
  Message& message = messages_[index];
  auto* bytes = const_cast<std::uint8_t*>(packet.data());
  iovec* last = message.parts.empty() ? nullptr : &message.parts.back();
  if (last != nullptr && static_cast<std::uint8_t*>(last->iov_base) + last->iov_len == bytes) {
    last->iov_len += packet.size();
  } else {
    message.parts.push_back({bytes, packet.size()});
  }
  message.bytes += packet.size();
  if (++message.packets == kMaxSegments || packet.size() < message.segment) std::erase(destination.open, index);
  return message.packets - 1;
}

void DatagramSender::prepare(msghdr& header, Control& control, Destination& destination, Message& message) {
  header = {};
  header.msg_name = destination.address.bytes.data();
  header.msg_namelen = destination.address.size;
  header.msg_iov = message.parts.data();
  header.msg_iovlen = message.parts.size();
  add_controls(header, control, destination.address, message);
}

void DatagramSender::add_controls(msghdr& header, Control& control, const Address& to, const Message& message) {
  std::size_t used = 0;
  const auto put = [&](int level, int type, const auto& value) {
    auto* c = reinterpret_cast<cmsghdr*>(&control.bytes[used]);
    c->cmsg_level = level;
    c->cmsg_type = type;
    c->cmsg_len = CMSG_LEN(sizeof(value));
    std::memcpy(CMSG_DATA(c), &value, sizeof(value));
    used += CMSG_SPACE(sizeof(value));
  };
  if (message.packets > 1) put(IPPROTO_UDP, UDP_SEGMENT, static_cast<std::uint16_t>(message.segment));
  if (socket_.any_local()) {
    if (family(to) == AF_INET6) {
      in6_pktinfo info{};
      std::memcpy(&info.ipi6_addr, to.local.data(), sizeof(info.ipi6_addr));
      put(IPPROTO_IPV6, IPV6_PKTINFO, info);
    } else {
      in_pktinfo info{};
      std::memcpy(&info.ipi_spec_dst, to.local.data(), sizeof(info.ipi_spec_dst));
      put(IPPROTO_IP, IP_PKTINFO, info);
    }
  }
  header.msg_control = used > 0 ? &control : nullptr;
  header.msg_controllen = used;
}

Status DatagramSender::flush() {
  status_ = {};
  wait_until_.reset();
  ++flushes_;
  send_normal_priority();
  send_low_priority();
  clear();
  return std::move(status_);
}

void DatagramSender::send_normal_priority() {
  for (std::size_t done = 0; done < queued_.size();) {
    if (!next_hops_ || !crowded()) {
      send_from(queued_, done, kMaxMessagesPerCall);
    } else if (const Message& message = messages_[queued_[done]];
               would_stay_queued(destinations_[message.destination])) {
      packets_unsent_ += message.packets;
      ++done;
    } else {
      send_from(queued_, done, 1);
    }
  }
}

bool DatagramSender::would_stay_queued(Destination& destination) {
  const Nanoseconds start = now();
  if (start >= destination.ask_hop_at) {
    destination.hop_resolved = next_hops_->resolved(destination.address);
    destination.ask_hop_at = start + kHopAge;
  }
  return !destination.hop_resolved;
}

void DatagramSender::send_low_priority() {
  // One message at a time, because each adds to what the buffer holds.
  for (std::size_t done = 0; done < low_.size();) {
    if (!crowded()) {
      send_from(low_, done, 1);
    } else {
      packets_unsent_ += messages_[low_[done++]].packets;
    }
  }
}

void DatagramSender::send_from(const std::vector<std::size_t>& queued, std::size_t& done, std::size_t most) {
  // After one failure for want of room, the next message will most likely fail as well.
  const std::size_t count = std::min(queued.size() - done, full_ ? 1 : most);
  for (std::size_t i = 0; i < count; ++i) {
    Message& next = messages_[queued[done + i]];
    prepare(headers_[i].msg_hdr, controls_[i], destinations_[next.destination], next);
  }
  const int sent = sendmmsg(socket_.fd(), headers_.data(), static_cast<unsigned>(count), MSG_DONTWAIT);
  if (sent > 0) {
    for (int i = 0; i < sent; ++i, ++done) {
      const Message& message = messages_[queued[done]];
      if (message.packets > 1) destinations_[message.destination].pause = 0;
    }
    retried_ = full_ = false;
    return;
  }
  const int error = errno;
  if (try_again(error)) return;
  const Message& message = messages_[queued[done]];
  Destination& destination = destinations_[message.destination];
  retried_ = false;
  if (refuses_segments(error) && message.packets > 1) {
    pause_segments(destination);
    send_one_by_one(destination, message);
  } else {
    give_up(error, destination.address, message.packets);
  }
  ++done;
}

void DatagramSender::send_one_by_one(Destination& destination, const Message& message) {
  Message single{.packets = 1, .priority = message.priority};
  for (const iovec& part : message.parts) {
    for (std::size_t begin = 0; begin < part.iov_len; begin += message.segment) {
      auto* packet = static_cast<std::uint8_t*>(part.iov_base) + begin;
      single.parts = {{packet, std::min(message.segment, part.iov_len - begin)}};
      msghdr header;
      prepare(header, controls_[0], destination, single);
      while (sendmsg(socket_.fd(), &header, MSG_DONTWAIT) < 0) {
        const int error = errno;
        if (try_again(error)) continue;
        give_up(error, destination.address, 1);
        break;
      }
      retried_ = false;
    }
  }
}

void DatagramSender::pause_segments(Destination& destination) {
  destination.pause = std::clamp(2 * destination.pause, kFirstPause, kLongestPause);
  destination.segments_from = flushes_ + destination.pause;
}

bool DatagramSender::try_again(int error) {
  if (error == EINTR) return true;
  if (means_full(error)) return when_full_ == WhenFull::kWait && wait_for_room(error);
  if (means_unreachable(error)) socket_.take_unreachable(unreachable_);
  // The error may be about an earlier packet, and this one has not been tried yet.
  return !std::exchange(retried_, true);
}

bool DatagramSender::wait_for_room(int error) {
  const Nanoseconds start = now();
  if (!wait_until_) wait_until_ = start + kMaxSendWait;
  if (start >= *wait_until_) return false;
  socket_.take_unreachable(unreachable_);  // a pending error would end the sleep at once
  if (error == EAGAIN) {
    socket_.wait_writable(*wait_until_ - start);
  } else {
    poll(nullptr, 0, 1);  // no socket can be polled for this condition
  }
  return true;
}

void DatagramSender::give_up(int error, const Address& to, std::size_t packets) {
  packets_unsent_ += packets;
  if (means_unreachable(error) && unreachable_.size() < kMaxUnreachable) unreachable_.push_back(to);
  full_ = means_full(error);
  if (is_permanent(error) && status_.ok()) {
    status_ = {ErrorCode::kSystem, std::string("sending a packet failed: ") + std::strerror(error)};
  }
}

void DatagramSender::clear() {
  used_ = 0;
  if (destinations_.size() > kMaxRemembered) {
    destinations_.clear();
    index_.clear();
    last_destination_ = 0;
  }
  for (; begun_ > 0; --begun_) {
    Message& message = messages_[begun_ - 1];
    message.parts.clear();
    message.packets = message.bytes = 0;
    if (destinations_.empty()) continue;
    destinations_[message.destination].open.clear();
    destinations_[message.destination].sequences.clear();
  }
  queued_.clear();
  low_.clear();
}

std::vector<Address> DatagramSender::take_unreachable() { return std::exchange(unreachable_, {}); }

}  // namespace jaxina::net
