// UdpSocket: a non-blocking UDP socket with the options that jaxina's datagrams need. Another thread can interrupt a
// wait for packets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rdma_engine/base/address.h"
#include "rdma_engine/base/time.h"

namespace jaxina::net {

// Linux accepts at most this many segments in one message.
inline constexpr std::size_t kMaxSegments = 64;

// Owns a file descriptor and closes it.
class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor();
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

// A switch's send_buffer. The kernel holds at most 208 KiB for each host that does not answer, so tens of such hosts
// cannot fill it. At 10 Gb/s it is a queue of 7 ms.
inline constexpr std::size_t kSwitchSendBuffer = std::size_t{8} << 20;

struct SocketOptions {
  std::size_t receive_buffer = std::size_t{32} << 20;  // bytes to ask for; unprivileged: net.core.rmem_max at most
  std::size_t send_buffer = 0;                         // likewise, net.core.wmem_max at most; 0: the system's default
  bool report_unreachable = false;                     // report ICMP errors as failed calls
  bool answers = false;  // the socket answers those who ask it: see UdpSocket::any_local()
  bool offload = true;   // use UDP_SEGMENT and UDP_GRO if the kernel has them
};

class UdpSocket {
 public:
  // Bound to `local`. Throws Error(kInvalidArgument) if the address is in use or not this host's, else Error(kSystem).
  UdpSocket(const Address& local, const SocketOptions& options);

  int fd() const { return socket_.get(); }
  Address local() const;
  // Whether one send call may carry several equally long packets (UDP_SEGMENT).
  bool segments() const { return segments_; }
  // Whether the socket answers packets to any of the host's addresses. If so, the receiver stores in Address::local
  // which address a packet was sent to, and the sender answers from that address.
  bool any_local() const { return any_local_; }
  // How many bytes of packets may wait unread, by a careful estimate. The kernel also counts its own bookkeeping, which
  // for small packets is as large as the packets.
  std::size_t receive_capacity() const { return receive_capacity_; }
  // How many bytes were asked for. This is more than the capacity if net.core.rmem_max limits the buffer.
  std::size_t receive_requested() const { return receive_requested_; }
  // send_limit: how many bytes of memory outgoing packets may take before the socket accepts no more. send_used: how
  // many they take now. A packet counts until the device has it. So it also counts while it waits for its destination's
  // link address: for seconds, if no host has that address.
  std::size_t send_limit() const { return send_limit_; }
  std::size_t send_used() const;

  // Sleeps until a packet or an error arrives, interrupt() is called, or the timeout passes.
  void wait_readable(Nanoseconds timeout);
  // Sleeps until the socket accepts packets again or has an error to report. Returns false after the timeout.
  bool wait_writable(Nanoseconds timeout);
  // Ends the current or the next wait_readable(). Thread-safe.
  void interrupt();

  // Empties the error queue. Appends the destinations that an error in it calls unreachable, once for each error.
  void take_unreachable(std::vector<Address>& destinations);

 private:
  FileDescriptor socket_;
  FileDescriptor event_;
  bool segments_ = false;
  bool any_local_ = false;
  std::size_t receive_requested_, receive_capacity_ = 0, send_limit_ = 0;
};

// Whether this errno means that the other side cannot be reached at the moment.
bool means_unreachable(int error);

// The largest packet, in bytes and including headers, that the route to `address` carries unfragmented. Throws
// Error(kSwitchUnreachable) if there is no route.
std::size_t route_mtu(const Address& address);
// The largest packet that the device with this IPv4 address carries. Throws Error(kInvalidArgument) if there is none.
std::size_t device_mtu(const std::string& host);
// This host's own numeric address on the route to `address`. Throws like route_mtu().
std::string route_source(const Address& address);

}  // namespace jaxina::net
