#include "rdma_engine/transport/udp/datagram_sender.h"

#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
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
constexpr Nanoseconds kMaxWait = 1'000'000'000;
constexpr int kMaxDeviceWaits = 1000;  // of a millisecond

// Errors that say "not with UDP_SEGMENT": an old kernel, a device without checksums, a packet above the route's MTU.
bool refuses_segments(int error) {
  return error == EINVAL || error == EIO || error == EMSGSIZE || error == EOPNOTSUPP || error == ENOPROTOOPT;
}

}  // namespace

DatagramSender::DatagramSender(UdpSocket& socket)
    : socket_(socket),
      segments_(socket.segments()),
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

std::size_t DatagramSender::add(const Address& to, std::span<const std::uint8_t> packet) {
  Destination& destination = destination_for(to);
  Message* message = destination.messages.empty() ? nullptr : &destination.messages.back();
  const bool joins = segments_ && destination.open && packet.size() <= message->segment &&
                     message->packets < kMaxSegments && message->bytes + packet.size() <= wire::kMaxPacketSize;
  if (!joins) {
    queued_.push_back({last_destination_, destination.messages.size()});
    destination.messages.push_back({destination.parts.size(), 0, 0, 0, packet.size()});
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
  destination.open = packet.size() == message->segment;  // only the last segment may be shorter
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
    in_pktinfo info{};
    info.ipi_spec_dst = local_side(to);
    put(IPPROTO_IP, IP_PKTINFO, info);
  }
  header.msg_control = used > 0 ? &control : nullptr;
  header.msg_controllen = used;
}

Status DatagramSender::flush() {
  status_ = {};
  for (std::size_t done = 0; done < queued_.size();) send_from(done);
  clear();
  return std::move(status_);
}

void DatagramSender::send_from(std::size_t& done) {
  const std::size_t count = std::min(queued_.size() - done, kMaxMessagesPerCall);
  for (std::size_t i = 0; i < count; ++i) {
    Destination& destination = destinations_[queued_[done + i].destination];
    prepare(headers_[i].msg_hdr, controls_[i], destination, destination.messages[queued_[done + i].message]);
  }
  const int sent = sendmmsg(socket_.fd(), headers_.data(), static_cast<unsigned>(count), MSG_DONTWAIT);
  if (sent > 0) {
    done += static_cast<std::size_t>(sent);
    attempts_ = 0;
    return;
  }
  const int error = errno;
  Destination& destination = destinations_[queued_[done].destination];
  const Message& message = destination.messages[queued_[done].message];
  if (refuses_segments(error) && message.packets > 1) {
    segments_ = false;
    send_one_by_one(destination, message);
  } else if (try_again(error, ++attempts_)) {
    return;
  } else {
    give_up(error, message.packets);
  }
  ++done;
  attempts_ = 0;
}

void DatagramSender::send_one_by_one(Destination& destination, const Message& message) {
  Message single{.first_part = 0, .parts = 1, .packets = 1, .bytes = 0, .segment = 0};
  for (std::size_t p = 0; p < message.parts; ++p) {
    const iovec& part = destination.parts[message.first_part + p];
    for (std::size_t begin = 0; begin < part.iov_len; begin += message.segment) {
      iovec packet{static_cast<std::uint8_t*>(part.iov_base) + begin, std::min(message.segment, part.iov_len - begin)};
      msghdr header;
      prepare(header, controls_[0], destination, single);
      header.msg_iov = &packet;
      for (int attempt = 1; sendmsg(socket_.fd(), &header, MSG_DONTWAIT) < 0; ++attempt) {
        const int error = errno;
        if (try_again(error, attempt)) continue;
        give_up(error, 1);
        break;
      }
    }
  }
}

bool DatagramSender::try_again(int error, int attempt) {
  if (error == EINTR) return true;
  if (error == EAGAIN) return socket_.wait_writable(kMaxWait);
  if (error == ENOBUFS) {
    // The device's queue is full, which the socket cannot be polled for.
    poll(nullptr, 0, 1);
    return attempt < kMaxDeviceWaits;
  }
  if (!means_unreachable(error)) return false;
  unreachable_ = true;
  return attempt == 1;  // it may tell of an earlier packet, and this one has not been tried yet
}

void DatagramSender::give_up(int error, std::size_t packets) {
  packets_unsent_ += packets;
  if (means_unreachable(error) || !status_.ok()) return;
  status_ = {ErrorCode::kSystem, error == EAGAIN || error == ENOBUFS
                                     ? std::string("the network took no packets for a second; check that it is up")
                                     : std::string("sending a packet failed: ") + std::strerror(error)};
}

void DatagramSender::clear() {
  used_ = 0;
  queued_.clear();
  if (destinations_.size() > kMaxRemembered) {
    destinations_.clear();
    index_.clear();
    last_destination_ = 0;
    return;
  }
  for (Destination& destination : destinations_) {
    destination.parts.clear();
    destination.messages.clear();
    destination.open = false;
  }
}

bool DatagramSender::take_unreachable() { return std::exchange(unreachable_, false); }

}  // namespace jaxina::udp
