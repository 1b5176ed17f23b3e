// A network of the test's own, in which most hosts do not exist.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <sched.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "rdma_engine/net/udp_socket.h"

namespace jaxina::testing {

// Runs body() on a thread in a new network namespace, or skips the test without the privileges. The namespace has
// loopback with the addresses fd00:9::1 and fd00:9::2; the system chooses only the first as a source unless the second
// is asked for. It also has a link "near", on which this host is 10.9.0.1/24 and nobody else answers. The namespace
// ends with its last thread.
template <typename Body>
void in_own_network(Body body) {
  std::string skipped;
  std::thread([&] {
    if (unshare(CLONE_NEWNET) != 0) {
      skipped = std::string("needs root, for a network namespace: ") + std::strerror(errno);
      return;
    }
    const char* commands =
        "{ ip link set lo up && ip address add fd00:9::1 dev lo nodad && ip address add fd00:9::2 dev lo nodad && "
        // The system adds this route a moment after the address, so try until it can be deleted.
        "for i in $(seq 100); do ip -6 route del local fd00:9::2 dev lo table local && break; sleep 0.02; done && "
        "ip -6 route add local fd00:9::2 dev lo table local src fd00:9::1 && "
        "ip link add near address 02:00:00:00:00:01 type veth peer name far && ip link set far up && "
        "ip address add 10.9.0.1/24 dev near && ip link set near up && "
        // A link takes packets only a moment after both its ends are up.
        "for i in $(seq 100); do ip link show far | grep -q 'state UP' && ip link show near | grep -q 'state UP' && "
        "break; sleep 0.02; done; } >/dev/null 2>&1";
    if (std::system("command -v ip >/dev/null") != 0) {
      skipped = "needs the command ip, to set a network up";
      return;
    }
    ASSERT_EQ(std::system(commands), 0) << "setting a network up failed";
    body();
  }).join();
  if (!skipped.empty()) GTEST_SKIP() << skipped;
}

// Sends datagrams with any source address on the link, as a neighbour can.
class Forger {
 public:
  Forger() : socket_(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL))) {}

  void send(const char* from, std::uint16_t from_port, std::uint16_t to_port, std::span<const std::uint8_t> payload) {
    struct [[gnu::packed]] Headers {
      ether_header link;
      iphdr ip;
      udphdr udp;
    } headers{};
    headers.link = {{2, 0, 0, 0, 0, 1}, {2, 0, 0, 0, 0, 2}, htons(ETHERTYPE_IP)};
    headers.ip.version = 4;
    headers.ip.ihl = 5;
    headers.ip.tot_len = htons(static_cast<std::uint16_t>(sizeof(iphdr) + sizeof(udphdr) + payload.size()));
    headers.ip.ttl = 64;
    headers.ip.protocol = IPPROTO_UDP;
    headers.ip.saddr = inet_addr(from);
    headers.ip.daddr = inet_addr("10.9.0.1");
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(&headers);
    headers.ip.check = checksum({bytes + sizeof(ether_header), sizeof(iphdr)});
    headers.udp = {};
    headers.udp.source = htons(from_port);
    headers.udp.dest = htons(to_port);
    headers.udp.len = htons(static_cast<std::uint16_t>(sizeof(udphdr) + payload.size()));
    std::vector<std::uint8_t> frame(sizeof(headers) + payload.size());
    std::memcpy(frame.data(), &headers, sizeof(headers));
    std::memcpy(frame.data() + sizeof(headers), payload.data(), payload.size());
    sockaddr_ll to{};
    to.sll_family = AF_PACKET;
    to.sll_ifindex = static_cast<int>(if_nametoindex("far"));
    ASSERT_EQ(sendto(socket_.get(), frame.data(), frame.size(), 0, reinterpret_cast<sockaddr*>(&to), sizeof(to)),
              static_cast<ssize_t>(frame.size()))
        << std::strerror(errno);
  }

 private:
  static std::uint16_t checksum(std::span<const std::uint8_t> header) {
    std::uint32_t sum = 0;
    for (std::size_t i = 0; i < header.size(); i += 2) {
      std::uint16_t word;
      std::memcpy(&word, &header[i], sizeof(word));
      sum += word;
    }
    while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
    return static_cast<std::uint16_t>(~sum);
  }

  net::FileDescriptor socket_;
};

// Returns the address of one of 200 hosts on the link that do not exist.
inline std::string absent_host(std::uint64_t number) { return "10.9.0." + std::to_string(2 + number % 200); }

}  // namespace jaxina::testing
