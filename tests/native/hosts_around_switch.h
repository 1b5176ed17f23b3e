// Hosts in network namespaces, each with a link to a namespace in which a transparent switch may stand.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "rdma_engine/net/socket_address.h"
#include "rdma_engine/net/udp_socket.h"

namespace jaxina::testing {

// Sends and receives whole frames at an interface, of a type for local experiments.
class RawHost {
 public:
  using Bytes = std::vector<std::uint8_t>;
  using Address = std::array<std::uint8_t, 6>;

  explicit RawHost(const char* interface) : socket_(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0)) {
    sockaddr_ll at{};
    at.sll_family = AF_PACKET;
    at.sll_protocol = htons(ETH_P_ALL);
    at.sll_ifindex = static_cast<int>(if_nametoindex(interface));
    EXPECT_EQ(bind(socket_, reinterpret_cast<const sockaddr*>(&at), sizeof(at)), 0) << std::strerror(errno);
    const int on = 1;
    EXPECT_EQ(setsockopt(socket_, SOL_PACKET, PACKET_AUXDATA, &on, sizeof(on)), 0);
    ifreq request{};
    std::strncpy(request.ifr_name, interface, IFNAMSIZ - 1);
    EXPECT_EQ(ioctl(socket_, SIOCGIFHWADDR, &request), 0);
    std::memcpy(address_.data(), request.ifr_hwaddr.sa_data, address_.size());
  }
  RawHost(RawHost&& other) noexcept : socket_(std::exchange(other.socket_, -1)), address_(other.address_) {}
  ~RawHost() {
    if (socket_ >= 0) close(socket_);
  }

  const Address& address() const { return address_; }

  Bytes frame_to(const Address& to, std::size_t size, bool tagged) {
    Bytes frame(size + (tagged ? 4 : 0));
    std::copy(to.begin(), to.end(), frame.begin());
    std::copy(address_.begin(), address_.end(), frame.begin() + 6);
    std::size_t at = 12;
    const auto put = [&](std::uint16_t value) {
      frame[at++] = static_cast<std::uint8_t>(value >> 8);
      frame[at++] = static_cast<std::uint8_t>(value);
    };
    if (tagged) put(0x8100), put(0x2005);
    put(0x88b5);
    for (; at < frame.size(); ++at) frame[at] = static_cast<std::uint8_t>(random_());
    return frame;
  }
  void send(const Bytes& frame) {
    EXPECT_EQ(::send(socket_, frame.data(), frame.size(), 0), static_cast<ssize_t>(frame.size()))
        << std::strerror(errno);
  }
  // The frame that comes and ends as this one does; empty if none comes within a minute.
  Bytes receive_with_number_of(const Bytes& wanted) {
    for (pollfd wait{socket_, POLLIN, 0}; poll(&wait, 1, 60'000) > 0;) {
      Bytes frame(4096);
      alignas(cmsghdr) char control[256];
      iovec part{frame.data(), frame.size()};
      msghdr message{};
      message.msg_iov = &part;
      message.msg_iovlen = 1;
      message.msg_control = control;
      message.msg_controllen = sizeof(control);
      const ssize_t size = recvmsg(socket_, &message, 0);
      if (size < 14) continue;
      frame.resize(static_cast<std::size_t>(size));
      put_tag_in(message, frame);
      if (frame.size() >= 8 && std::equal(wanted.end() - 8, wanted.end(), frame.end() - 8)) return frame;
    }
    return {};
  }

 private:
  static void put_tag_in(msghdr& message, Bytes& frame) {
    for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
      if (c->cmsg_level != SOL_PACKET || c->cmsg_type != PACKET_AUXDATA) continue;
      tpacket_auxdata data;
      std::memcpy(&data, CMSG_DATA(c), sizeof(data));
      if ((data.tp_status & TP_STATUS_VLAN_VALID) == 0) continue;
      const std::uint8_t tag[4] = {0x81, 0, static_cast<std::uint8_t>(data.tp_vlan_tci >> 8),
                                   static_cast<std::uint8_t>(data.tp_vlan_tci)};
      frame.insert(frame.begin() + 12, tag, tag + 4);
    }
  }

  int socket_;
  Address address_{};
  std::mt19937 random_{7};
};

class HostsAroundSwitch {
 public:
  // Makes the namespaces. The calling thread is in the switch's.
  explicit HostsAroundSwitch(std::uint32_t hosts) : home_(here()) {
    for (std::uint32_t host = 0; host < hosts; ++host) add_host(host);
  }
  ~HostsAroundSwitch() {
    for (const int one : namespaces_) close(one);
    close(home_);
  }

  // Two interfaces of the switch's namespace that are connected to each other.
  void add_cable(const std::string& one, const std::string& other) {
    at_switch([&] {
      run("ip link add " + one + " type veth peer name " + other + " && ip link set " + one + " up && ip link set " +
          other + " up");
      return 0;
    });
  }

  std::vector<std::string> ports() const {
    std::vector<std::string> names;
    for (std::size_t host = 0; host < namespaces_.size(); ++host) names.push_back("port" + std::to_string(host));
    return names;
  }
  static std::string address(std::uint32_t host) { return "10.9.0." + std::to_string(host + 1); }

  // Calls make() in a host's namespace. Sockets that it makes, and threads that it starts, stay there.
  template <typename Make>
  std::invoke_result_t<Make> at(std::uint32_t host, Make make) {
    return in(namespaces_[host], make);
  }
  template <typename Make>
  std::invoke_result_t<Make> at_switch(Make make) {
    return in(home_, make);
  }

  // How many of so many bytes come by TCP.
  std::size_t sent_by_stream(std::uint32_t from, std::uint32_t to, std::size_t bytes) {
    const int listener = at(to, [&] {
      const int fd = socket(AF_INET, SOCK_STREAM, 0);
      const jaxina::Address own = net::resolve(address(to), 5000, ErrorCode::kSystem);
      EXPECT_EQ(bind(fd, net::as_sockaddr(own), own.size), 0);
      EXPECT_EQ(listen(fd, 1), 0);
      return fd;
    });
    std::thread sender([&] {
      const int fd = at(from, [] { return socket(AF_INET, SOCK_STREAM, 0); });
      const jaxina::Address there = net::resolve(address(to), 5000, ErrorCode::kSystem);
      EXPECT_EQ(connect(fd, net::as_sockaddr(there), there.size), 0) << std::strerror(errno);
      const std::vector<std::uint8_t> content(bytes, 5);
      for (std::size_t sent = 0; sent < bytes;) {
        const ssize_t count = ::send(fd, &content[sent], bytes - sent, MSG_NOSIGNAL);
        if (count <= 0) break;
        sent += static_cast<std::size_t>(count);
      }
      close(fd);
    });
    const int fd = accept(listener, nullptr, nullptr);
    std::size_t received = 0;
    std::vector<std::uint8_t> buffer(1 << 16);
    for (ssize_t count; (count = recv(fd, buffer.data(), buffer.size(), 0)) > 0;) {
      received += static_cast<std::size_t>(std::count(buffer.begin(), buffer.begin() + count, 5));
    }
    sender.join();
    close(fd);
    close(listener);
    return received;
  }

 private:
  void add_host(std::uint32_t host) {
    EXPECT_EQ(unshare(CLONE_NEWNET), 0);
    namespaces_.push_back(here());
    const std::string number = std::to_string(host);
    setns(home_, CLONE_NEWNET);
    const std::string path = "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(namespaces_.back());
    run("ip link add port" + number + " type veth peer name eth0 netns " + path + " && ip link set port" + number +
        " up");
    at(host, [&] {
      run("ip link set lo up && ip address add " + address(host) + "/24 dev eth0 && ip link set eth0 up");
      return 0;
    });
  }
  static int here() { return open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC); }
  static void run(const std::string& command) {
    EXPECT_EQ(std::system((command + " >/dev/null").c_str()), 0) << command;
  }
  template <typename Make>
  static std::invoke_result_t<Make> in(int where, Make make) {
    const int before = here();
    EXPECT_EQ(setns(where, CLONE_NEWNET), 0);
    auto made = make();
    EXPECT_EQ(setns(before, CLONE_NEWNET), 0);
    close(before);
    return made;
  }

  int home_;
  std::vector<int> namespaces_;
};

// Runs body(hosts) on a thread in the switch's namespace, or skips the test without the privileges.
template <typename Body>
void with_hosts_around_switch(std::uint32_t count, Body body) {
  std::string skipped;
  std::thread([&] {
    if (unshare(CLONE_NEWNET) != 0) {
      skipped = std::string("needs root, for network namespaces: ") + std::strerror(errno);
      return;
    }
    if (std::system("command -v ip >/dev/null") != 0) {
      skipped = "needs the command ip, to set a network up";
      return;
    }
    HostsAroundSwitch hosts(count);
    body(hosts);
  }).join();
  if (!skipped.empty()) GTEST_SKIP() << skipped;
}

}  // namespace jaxina::testing
