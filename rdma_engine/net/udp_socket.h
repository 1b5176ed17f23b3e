// A non-blocking UDP socket with the options that jaxina's datagrams want, and a way to wait for it that another
// thread can interrupt.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "rdma_engine/base/address.h"
#include "rdma_engine/base/time.h"

namespace jaxina::net {

// Linux lets one message carry this many segments.
inline constexpr std::size_t kMaxSegments = 64;

// Closes what it holds.
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

// What a switch asks for as its sockets' send_buffer: more than tens of hosts that do not answer can fill, as the
// kernel keeps at most 208 KiB for each of them; at 10 Gb/s a queue of 7 ms.
inline constexpr std::size_t kSwitchSendBuffer = std::size_t{8} << 20;

struct SocketOptions {
  std::size_t receive_buffer = std::size_t{32}
                               << 20;  // bytes asked for; without privileges net.core.rmem_max limits them
  std::size_t send_buffer = 0;         // the same, and net.core.wmem_max; 0: as the system has it
  bool report_unreachable = false;     // ICMP errors come back as failed calls
  bool answers = false;                // it answers those who ask: see UdpSocket::any_local()
  bool offload = true;                 // UDP_SEGMENT and UDP_GRO, where the kernel has them
};

class UdpSocket {
 public:
  // Bound to `local`. Throws Error(kInvalidArgument) if that is in use or not this host's, else Error(kSystem).
  UdpSocket(const Address& local, const SocketOptions& options);

  int fd() const { return socket_.get(); }
  Address local() const;
  // Whether one send call may carry several equal packets.
  bool segments() const { return segments_; }
  // Whether the socket answers packets to any of the host's addresses. The receiver then keeps in Address::local which
  // of them a packet was sent to, and the sender answers from that one.
  bool any_local() const { return any_local_; }
  // How many bytes of packets may wait unread, by a careful estimate: the kernel counts its own bookkeeping too, which
  // for small packets is as much again as they hold.
  std::size_t receive_capacity() const { return receive_capacity_; }
  // How many were asked for; more than the capacity if net.core.rmem_max limits it.
  std::size_t receive_requested() const { return receive_requested_; }
  // Bytes of memory that packets on their way may take before the socket accepts no more, and how many they take. A
  // packet counts until the device has it: also while it waits for its destination's link address, seconds if nobody
  // has it.
  std::size_t send_limit() const { return send_limit_; }
  std::size_t send_used() const;

  // Sleeps until a packet or an error has come in, interrupt() was called, or the timeout has passed.
  void wait_readable(Nanoseconds timeout);
  // Sleeps until the socket takes packets again or has an error to tell; false after the timeout.
  bool wait_writable(Nanoseconds timeout);
  // Ends the current or the next wait_readable(). Thread-safe.
  void interrupt();

  // Takes errors off the error queue; whether one said that the other side cannot be reached.
  bool take_unreachable();

 private:
  FileDescriptor socket_;
  FileDescriptor event_;
  bool segments_ = false;
  bool any_local_ = false;
  std::size_t receive_requested_, receive_capacity_ = 0, send_limit_ = 0;
};

// Whether errno says that the other side cannot be reached at the moment.
bool means_unreachable(int error);

// The largest packet the route to `address` carries in one piece, headers included. Throws Error(kSwitchUnreachable) if
// there is no route.
std::size_t route_mtu(const Address& address);
// This host's own address, in numbers, on the route to `address`. Throws the same.
std::string route_source(const Address& address);

}  // namespace jaxina::net
