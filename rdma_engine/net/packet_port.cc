#include "rdma_engine/net/packet_port.h"

#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "rdma_engine/errors.h"

namespace jaxina::net {
namespace {

constexpr std::size_t kBatch = 32;
// Before a frame there is room for the tag of its virtual network, which the kernel takes out.
constexpr std::size_t kTag = 4;
// The largest frame that a host leaves to its network card to be cut, with Ethernet's header.
constexpr std::size_t kMaxFrame = 65536 + 256;
constexpr std::size_t kStride = sizeof(FrameOffload) + kTag + kMaxFrame;
constexpr std::uint8_t kNeedsChecksum = 1;  // VIRTIO_NET_HDR_F_NEEDS_CSUM
static_assert(sizeof(FrameOffload) == 10);
constexpr int kReceiveBuffer = 32 << 20;

int checked(int result, const std::string& what) {
  if (result < 0) throw Error(ErrorCode::kSystem, what + " failed: " + std::strerror(errno));
  return result;
}

int open_port() {
  const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0 && errno == EPERM) {
    throw Error(ErrorCode::kInvalidArgument,
                "a transparent switch needs the capability CAP_NET_RAW: run it as root, or grant it");
  }
  return checked(fd, "socket(AF_PACKET)");
}

void set_option(int fd, int level, int name, int value, const char* what) {
  checked(setsockopt(fd, level, name, &value, sizeof(value)), what);
}

}  // namespace

PacketPort::PacketPort(const std::string& interface)
    : socket_(open_port()), buffer_(kBatch * kStride), parts_(kBatch), controls_(kBatch), headers_(kBatch) {
  const unsigned index = if_nametoindex(interface.c_str());
  if (index == 0) throw Error(ErrorCode::kInvalidArgument, "there is no network interface " + interface);
  set_option(fd(), SOL_PACKET, PACKET_VNET_HDR, 1, "PACKET_VNET_HDR");
  set_option(fd(), SOL_PACKET, PACKET_AUXDATA, 1, "PACKET_AUXDATA");
  set_option(fd(), SOL_PACKET, PACKET_IGNORE_OUTGOING, 1, "PACKET_IGNORE_OUTGOING");
  const int buffer = kReceiveBuffer;
  if (setsockopt(fd(), SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof(buffer)) != 0) {
    set_option(fd(), SOL_SOCKET, SO_RCVBUF, buffer, "SO_RCVBUF");
  }
  // Frames are to other hosts' addresses.
  packet_mreq all{};
  all.mr_ifindex = static_cast<int>(index);
  all.mr_type = PACKET_MR_PROMISC;
  checked(setsockopt(fd(), SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof(all)), "PACKET_ADD_MEMBERSHIP");
  sockaddr_ll at{};
  at.sll_family = AF_PACKET;
  at.sll_protocol = htons(ETH_P_ALL);
  at.sll_ifindex = static_cast<int>(index);
  checked(bind(fd(), reinterpret_cast<const sockaddr*>(&at), sizeof(at)), "bind(AF_PACKET)");
}

std::size_t PacketPort::fill() {
  for (std::size_t i = 0; i < kBatch; ++i) {
    // The header lies before the room for a tag, so that a tag can be put in by moving twelve bytes.
    parts_[i] = {&buffer_[i * kStride + kTag], kStride - kTag};
    headers_[i] = {};
    headers_[i].msg_hdr.msg_iov = &parts_[i];
    headers_[i].msg_hdr.msg_iovlen = 1;
    headers_[i].msg_hdr.msg_control = controls_[i].bytes;
    headers_[i].msg_hdr.msg_controllen = sizeof(controls_[i].bytes);
  }
  const int count = recvmmsg(fd(), headers_.data(), kBatch, 0, nullptr);
  return count > 0 ? static_cast<std::size_t>(count) : 0;
}

PacketPort::Frame PacketPort::frame_at(std::size_t index) {
  const mmsghdr& header = headers_[index];
  Frame frame{};
  if (header.msg_len < sizeof(FrameOffload) + ETH_HLEN || (header.msg_hdr.msg_flags & MSG_TRUNC) != 0) return frame;
  std::uint8_t* at = &buffer_[index * kStride + kTag];
  std::memcpy(&frame.offload, at, sizeof(FrameOffload));
  at += sizeof(FrameOffload);
  std::size_t size = header.msg_len - sizeof(FrameOffload);
  for (const cmsghdr* c = CMSG_FIRSTHDR(&header.msg_hdr); c != nullptr;
       c = CMSG_NXTHDR(const_cast<msghdr*>(&header.msg_hdr), const_cast<cmsghdr*>(c))) {
    if (c->cmsg_level != SOL_PACKET || c->cmsg_type != PACKET_AUXDATA) continue;
    tpacket_auxdata data;
    std::memcpy(&data, CMSG_DATA(c), sizeof(data));
    if ((data.tp_status & TP_STATUS_VLAN_VALID) == 0) continue;
    const std::uint16_t type =
        htons((data.tp_status & TP_STATUS_VLAN_TPID_VALID) != 0 ? data.tp_vlan_tpid : ETH_P_8021Q);
    const std::uint16_t tag = htons(data.tp_vlan_tci);
    std::memmove(at - kTag, at, 2 * ETH_ALEN);
    at -= kTag;
    size += kTag;
    std::memcpy(at + 2 * ETH_ALEN, &type, sizeof(type));
    std::memcpy(at + 2 * ETH_ALEN + 2, &tag, sizeof(tag));
    if ((frame.offload.flags & kNeedsChecksum) != 0) frame.offload.csum_start += kTag;
    if (frame.offload.hdr_len != 0) frame.offload.hdr_len += kTag;
  }
  frame.bytes = {at, size};
  return frame;
}

void PacketPort::send(std::span<const std::uint8_t> frame, const FrameOffload& offload) {
  FrameOffload header = offload;
  // What the kernel says of a checksum that it has verified means nothing in a frame to be sent.
  header.flags &= kNeedsChecksum;
  iovec parts[2] = {{&header, sizeof(header)}, {const_cast<std::uint8_t*>(frame.data()), frame.size()}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  const bool is_sent = sendmsg(fd(), &message, 0) >= 0;
  sent_ += is_sent;
  unsent_ += !is_sent;
}

}  // namespace jaxina::net
