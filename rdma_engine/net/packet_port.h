// PacketPort: sends and receives whole Ethernet frames at a network interface, as a switch's port does (AF_PACKET). The
// interface needs no address. Needs CAP_NET_RAW. Not thread-safe.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "rdma_engine/net/udp_socket.h"

namespace jaxina::net {

// What a host has left to its network card: a checksum, or cutting a frame into packets. It belongs to its frame, and
// must go on with it if the frame does not change. The default is a frame as it is on the wire. This is the kernel's
// struct virtio_net_hdr, whose header is not C++.
struct FrameOffload {
  std::uint8_t flags = 0, gso_type = 0;
  std::uint16_t hdr_len = 0, gso_size = 0, csum_start = 0, csum_offset = 0;
};

class PacketPort {
 public:
  // Throws Error(kInvalidArgument) if there is no such interface, Error(kSystem) if a call fails.
  explicit PacketPort(const std::string& interface);

  int fd() const { return socket_.get(); }

  // Takes the frames that have arrived, up to one batch, without waiting. Calls visit(frame, offload) for each; its
  // bytes are valid until the next call. Returns how many came.
  template <typename Visit>
  std::size_t receive(Visit visit) {
    const std::size_t frames = fill();
    for (std::size_t i = 0; i < frames; ++i) {
      const Frame frame = frame_at(i);
      if (!frame.bytes.empty()) visit(frame.bytes, frame.offload);
    }
    return frames;
  }
  // A frame that the interface does not take at once is dropped and counted.
  void send(std::span<const std::uint8_t> frame, const FrameOffload& offload = {});

  std::uint64_t sent() const { return sent_; }
  std::uint64_t unsent() const { return unsent_; }

 private:
  struct Frame {
    std::span<const std::uint8_t> bytes;  // empty: to be ignored
    FrameOffload offload;
  };
  struct alignas(cmsghdr) Control {
    char bytes[256];
  };
  std::size_t fill();
  Frame frame_at(std::size_t index);

  FileDescriptor socket_;
  std::vector<std::uint8_t> buffer_;
  std::vector<iovec> parts_;
  std::vector<Control> controls_;
  std::vector<mmsghdr> headers_;
  std::uint64_t sent_ = 0, unsent_ = 0;
};

}  // namespace jaxina::net
