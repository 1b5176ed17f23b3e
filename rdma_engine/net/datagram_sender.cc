#include "rdma_engine/net/datagram_sender.h"

#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "rdma_engine/wire/packet.h"

namespace jaxina::udp {
namespace {

// What a flush sends at most; small enough to stay in a core's cache between filling and the kernel's copy.
constexpr std::size_t kArenaSize = std::size_t{512} << 10;
// Destinations are remembered between flushes until there are more than a job has workers.
constexpr std::size_t kMaxRemembered = 4096;
constexpr std::size_t kMaxMessagesPerCall = 64;
constexpr std::uint64_t kFirstPause = 16, kLongestPause = std::uint64_t{1} << 16;  // flushes

// Errors that say "not with UDP_SEGMENT": an old kernel, a device without checksums, a packet above the route's MTU.
bool refuses_segments(int error) {
  return error == EINVAL || error == EIO || error == EMSGSIZE || error == EOPNOTSUPP || error == ENOPROTOOPT;
}

// The socket's buffer, the device's queue or the kernel's memory.
bool means_full(int error) { return error == EAGAIN || error == ENOBUFS || error == ENOMEM; }

// The other errors come and go with routes, firewalls and devices, or are one destination's.
bool means_never(int error) {
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
      controls_(kMaxMessagesPerCall) {}

std::uint8_t* DatagramSender::reserve(std::size_t size) {
  if (used_ + size > arena_.size()) return nullptr;
  last_reserved_ = used_;
  used_ += wire::padded(size);
  return &arena_[last_reserved_];
}

void DatagramSender::shrink(std::size_t size) { used_ = last_reserved_ + wire::padded(size); }

DatagramSender::Destination& DatagramSender::destination_for(const Address& to) {
  // A result goes to all workers in turn, so the destination is most often the last one or the one after it.
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
    destinations_.emplace_back();
    destinations_.back().address = to;
  }
  last_destination_ = found->second;
  return destinations_[last_destination_];
}

std::size_t DatagramSender::add(const Address& to, std::span<const std::uint8_t> packet, Priority priority) {
  Destination& destination = destination_for(to);
  Message* message = destination.messages.empty() ? nullptr : &destination.messages.back();
  const bool joins = destination.open && message->priority == priority && packet.size() <= message->segment &&
                     message->packets < kMaxSegments && message->bytes + packet.size() <= wire::kMaxPacketSize;
  if (!joins) {
    (priority == Priority::kLow ? low_ : queued_).push_back({last_destination_, destination.messages.size()});
    destination.messages.push_back({destination.parts.size(), 0, 0, 0, packet.size(), priority});
    message = &destination.messages.back();
  }
  iovec* last = message->parts > 0 ? &destination.parts.back() : nullptr;
  auto* bytes = const_cast<std::uint8_t*>(packet.data());
  if (last != nullptr && static_cast<std::uint8_t*>(last->iov_base) + last->iov_len == bytes) {
    last->iov_len += packet.size();
  } else {
    destination.parts.push_back({bytes, packet.size()});
    ++message->parts;
  }
  ++message->packets;
  message->bytes += packet.size();
  destination.open = packet.size() == message->segment &&  // only the last segment may be shorter
                     socket_.segments() && destination.segments_from <= flushes_;
  return message->packets - 1;
}

void DatagramSender::prepare(msghdr& header, Control& control, Destination& destination, const Message& message) {
  header = {};
  header.msg_name = destination.address.bytes.data();
  header.msg_namelen = destination.address.size;
  header.msg_iov = &destination.parts[message.first_part];
  header.msg_iovlen = message.parts;
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
  for (std::size_t done = 0; done < queued_.size();) send_from(queued_, done, kMaxMessagesPerCall);
  send_low_priority();
  clear();
  return std::move(status_);
}

void DatagramSender::send_low_priority() {
  // One at a time, for each adds to what the buffer holds.
  for (std::size_t done = 0; done < low_.size();) {
    if (socket_.send_used() < socket_.send_limit() / 4) {
      send_from(low_, done, 1);
    } else {
      packets_unsent_ += message_of(low_[done++]).packets;
    }
  }
}

void DatagramSender::send_from(const std::vector<Queued>& queued, std::size_t& done, std::size_t most) {
  const std::size_t count = std::min(queued.size() - done, full_ ? 1 : most);  // most likely the next one fails as well
  for (std::size_t i = 0; i < count; ++i) {
    const Queued& next = queued[done + i];
    prepare(headers_[i].msg_hdr, controls_[i], destinations_[next.destination], message_of(next));
  }
  const int sent = sendmmsg(socket_.fd(), headers_.data(), static_cast<unsigned>(count), MSG_DONTWAIT);
  if (sent > 0) {
    for (int i = 0; i < sent; ++i, ++done) {
      if (message_of(queued[done]).packets > 1) destinations_[queued[done].destination].pause = 0;
    }
    retried_ = full_ = false;
    return;
  }
  const int error = errno;
  if (try_again(error)) return;
  Destination& destination = destinations_[queued[done].destination];
  const Message& message = message_of(queued[done]);
  retried_ = false;
  if (refuses_segments(error) && message.packets > 1) {
    pause_segments(destination);
    send_one_by_one(destination, message);
  } else {
    give_up(error, message.packets);
  }
  ++done;
}

void DatagramSender::send_one_by_one(Destination& destination, const Message& message) {
  Message single{.first_part = 0, .parts = 1, .packets = 1, .bytes = 0, .segment = 0, .priority = message.priority};
  for (std::size_t p = 0; p < message.parts; ++p) {
    const iovec& part = destination.parts[message.first_part + p];
    for (std::size_t begin = 0; begin < part.iov_len; begin += message.segment) {
      iovec packet{static_cast<std::uint8_t*>(part.iov_base) + begin, std::min(message.segment, part.iov_len - begin)};
      msghdr header;
      prepare(header, controls_[0], destination, single);
      header.msg_iov = &packet;
      while (sendmsg(socket_.fd(), &header, MSG_DONTWAIT) < 0) {
        const int error = errno;
        if (try_again(error)) continue;
        give_up(error, 1);
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
  unreachable_ |= means_unreachable(error);
  return !std::exchange(retried_, true);  // it may tell of an earlier packet, and this one has not been tried yet
}

bool DatagramSender::wait_for_room(int error) {
  const Nanoseconds start = now();
  if (!wait_until_) wait_until_ = start + kMaxSendWait;
  if (start >= *wait_until_) return false;
  unreachable_ |= socket_.take_unreachable();  // an error that waits would end the sleep at once
  if (error == EAGAIN) {
    socket_.wait_writable(*wait_until_ - start);
  } else {
    poll(nullptr, 0, 1);  // no socket can be polled for this
  }
  return true;
}

void DatagramSender::give_up(int error, std::size_t packets) {
  packets_unsent_ += packets;
  full_ = means_full(error);
  if (means_never(error) && status_.ok()) {
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
  for (std::vector<Queued>* queue : {&queued_, &low_}) {
    for (const Queued& queued : *queue) {
      if (destinations_.empty()) break;
      Destination& destination = destinations_[queued.destination];
      destination.parts.clear();
      destination.messages.clear();
      destination.open = false;
    }
    queue->clear();
  }
}

bool DatagramSender::take_unreachable() { return std::exchange(unreachable_, false); }

}  // namespace jaxina::udp
