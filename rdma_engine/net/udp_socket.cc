#include "rdma_engine/net/udp_socket.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <linux/errqueue.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>

#include "rdma_engine/errors.h"
#include "rdma_engine/net/socket_address.h"

namespace jaxina::net {
namespace {

[[noreturn]] void throw_system(const std::string& what) {
  throw Error(ErrorCode::kSystem, what + " failed: " + std::strerror(errno));
}

int checked(int fd, const char* what) {
  if (fd < 0) throw_system(what);
  return fd;
}

bool set_option(int fd, int level, int name, int value) {
  return setsockopt(fd, level, name, &value, sizeof(value)) == 0;
}

// Asks for a buffer of this many bytes; 0 leaves the system's default. Returns the granted size. The kernel doubles the
// number it is given, to pay for its own bookkeeping.
std::size_t set_buffer(int fd, int option, int forced_option, std::size_t bytes) {
  const int wanted = static_cast<int>(std::min<std::size_t>(bytes, 1u << 30));
  if (wanted > 0 && !set_option(fd, SOL_SOCKET, forced_option, wanted)) set_option(fd, SOL_SOCKET, option, wanted);
  int granted = 0;
  socklen_t size = sizeof(granted);
  if (getsockopt(fd, SOL_SOCKET, option, &granted, &size) != 0) throw_system("getsockopt");
  return static_cast<std::size_t>(granted);
}

bool is_any_address(const Address& address) {
  if (family(address) == AF_INET6) {
    return std::memcmp(&address.bytes[offsetof(sockaddr_in6, sin6_addr)], &in6addr_any, sizeof(in6addr_any)) == 0;
  }
  const in_addr any{};
  return std::memcmp(&address.bytes[offsetof(sockaddr_in, sin_addr)], &any, sizeof(any)) == 0;
}

timespec to_timespec(Nanoseconds t) {
  t = std::max<Nanoseconds>(t, 0);
  return {static_cast<time_t>(t / 1'000'000'000), static_cast<long>(t % 1'000'000'000)};
}

}  // namespace

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) close(fd_);
}

UdpSocket::UdpSocket(const Address& local, const SocketOptions& options)
    : socket_(checked(socket(family(local), SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_UDP), "socket")),
      event_(checked(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), "eventfd")),
      receive_requested_(options.receive_buffer) {
  receive_capacity_ = set_buffer(fd(), SO_RCVBUF, SO_RCVBUFFORCE, options.receive_buffer) / 2;
  send_limit_ = set_buffer(fd(), SO_SNDBUF, SO_SNDBUFFORCE, options.send_buffer);
  set_option(fd(), SOL_SOCKET, SO_RXQ_OVFL, 1);  // see DatagramReceiver::overflows()
  const bool v6 = family(local) == AF_INET6;
  if (options.report_unreachable) {
    v6 ? set_option(fd(), IPPROTO_IPV6, IPV6_RECVERR, 1) : set_option(fd(), IPPROTO_IP, IP_RECVERR, 1);
  }
  any_local_ = options.answers && is_any_address(local) &&
               (v6 ? set_option(fd(), IPPROTO_IPV6, IPV6_RECVPKTINFO, 1) : set_option(fd(), IPPROTO_IP, IP_PKTINFO, 1));
  if (options.offload) {
    // The probe sets the default again, so it changes nothing: each message gives its own segment size.
    segments_ = set_option(fd(), IPPROTO_UDP, UDP_SEGMENT, 0);
    set_option(fd(), IPPROTO_UDP, UDP_GRO, 1);  // without it, packets arrive one by one
  }
  if (bind(fd(), as_sockaddr(local), local.size) != 0) {
    const int error = errno;
    const std::string where = to_string(local);
    if (error == EADDRINUSE) {
      throw Error(ErrorCode::kInvalidArgument, where + " is in use by another process; choose another port or end it");
    }
    if (error == EADDRNOTAVAIL) {
      throw Error(ErrorCode::kInvalidArgument, where + " is not an address of this host; choose one that is");
    }
    throw Error(ErrorCode::kSystem, "cannot listen on " + where + ": " + std::strerror(error));
  }
}

Address UdpSocket::local() const {
  sockaddr_storage storage{};
  socklen_t size = sizeof(storage);
  if (getsockname(fd(), reinterpret_cast<sockaddr*>(&storage), &size) != 0) throw_system("getsockname");
  return from_sockaddr(reinterpret_cast<const sockaddr*>(&storage), size);
}

std::size_t UdpSocket::send_used() const {
  int used = 0;
  if (ioctl(fd(), SIOCOUTQ, &used) != 0) throw_system("ioctl(SIOCOUTQ)");
  return static_cast<std::size_t>(used);
}

void UdpSocket::wait_readable(Nanoseconds timeout) {
  pollfd waits[2] = {{fd(), POLLIN, 0}, {event_.get(), POLLIN, 0}};
  const timespec limit = to_timespec(timeout);
  if (ppoll(waits, 2, &limit, nullptr) > 0 && waits[1].revents != 0) {
    std::uint64_t count;
    [[maybe_unused]] const ssize_t taken = read(event_.get(), &count, sizeof(count));
  }
}

bool UdpSocket::wait_writable(Nanoseconds timeout) {
  pollfd wait = {fd(), POLLOUT, 0};
  const timespec limit = to_timespec(timeout);
  return ppoll(&wait, 1, &limit, nullptr) > 0;
}

void UdpSocket::interrupt() {
  const std::uint64_t one = 1;
  // The write fails only if the counter is full, and then the wait ends as well.
  [[maybe_unused]] const ssize_t written = write(event_.get(), &one, sizeof(one));
}

void UdpSocket::take_unreachable(std::vector<Address>& destinations) {
  for (int i = 0; i < 64; ++i) {  // bounded, because the queue may fill while we read
    alignas(cmsghdr) char control[512];
    char packet[64];
    iovec part{packet, sizeof(packet)};
    sockaddr_storage destination{};
    msghdr message{};
    message.msg_name = &destination;
    message.msg_namelen = sizeof(destination);
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    if (recvmsg(fd(), &message, MSG_ERRQUEUE) < 0) return;
    for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
      const bool is_error = (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_RECVERR) ||
                            (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_RECVERR);
      if (!is_error) continue;
      sock_extended_err error;
      std::memcpy(&error, CMSG_DATA(c), sizeof(error));
      if (!means_unreachable(static_cast<int>(error.ee_errno))) continue;
      destinations.push_back(from_sockaddr(reinterpret_cast<const sockaddr*>(&destination), message.msg_namelen));
    }
  }
}

bool means_unreachable(int error) {
  return error == ECONNREFUSED || error == EHOSTUNREACH || error == ENETUNREACH || error == ENETDOWN ||
         error == EHOSTDOWN;
}

namespace {

// A new socket that is connected, so the kernel has found a route.
int probe(const Address& address) {
  const int fd = checked(socket(family(address), SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_UDP), "socket");
  if (connect(fd, as_sockaddr(address), address.size) == 0) return fd;
  const int error = errno;
  close(fd);
  throw Error(ErrorCode::kSwitchUnreachable, "there is no route to " + to_string(address) + ": " +
                                                 std::strerror(error) + "; check its address and this host's network");
}

}  // namespace

std::size_t route_mtu(const Address& address) {
  const FileDescriptor socket(probe(address));
  int mtu = 0;
  socklen_t size = sizeof(mtu);
  const bool v6 = family(address) == AF_INET6;
  if (getsockopt(socket.get(), v6 ? int{IPPROTO_IPV6} : int{IPPROTO_IP}, v6 ? IPV6_MTU : IP_MTU, &mtu, &size) != 0) {
    throw_system("getsockopt(IP_MTU)");
  }
  return static_cast<std::size_t>(mtu);
}

std::size_t device_mtu(const std::string& host) {
  in_addr wanted{};
  ifaddrs* all = nullptr;
  if (inet_pton(AF_INET, host.c_str(), &wanted) != 1 || getifaddrs(&all) != 0) all = nullptr;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(all, [](ifaddrs* list) {
    if (list != nullptr) freeifaddrs(list);
  });
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET) continue;
    sockaddr_in address;
    std::memcpy(&address, one->ifa_addr, sizeof(address));
    if (address.sin_addr.s_addr != wanted.s_addr) continue;
    ifreq request{};
    std::strncpy(request.ifr_name, one->ifa_name, IFNAMSIZ - 1);
    const FileDescriptor any(checked(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), "socket"));
    checked(ioctl(any.get(), SIOCGIFMTU, &request), "ioctl(SIOCGIFMTU)");
    return static_cast<std::size_t>(request.ifr_mtu);
  }
  throw Error(ErrorCode::kInvalidArgument, host + " is not an IPv4 address of this host");
}

std::string route_source(const Address& address) {
  const FileDescriptor socket(probe(address));
  sockaddr_storage storage{};
  socklen_t size = sizeof(storage);
  char host[NI_MAXHOST];
  if (getsockname(socket.get(), reinterpret_cast<sockaddr*>(&storage), &size) != 0 ||
      getnameinfo(reinterpret_cast<sockaddr*>(&storage), size, host, sizeof(host), nullptr, 0, NI_NUMERICHOST) != 0) {
    throw_system("getsockname");
  }
  return host;
}

}  // namespace jaxina::net
