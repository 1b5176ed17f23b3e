// RoCEv2 over a UDP socket: cuts writes into packets and sends them with GSO, hands arriving packets out, and knows the
// ICRC. IPv4 only.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "rdma_engine/transport/udp/datagram_receiver.h"
#include "rdma_engine/transport/udp/datagram_sender.h"
#include "rdma_engine/transport/udp/udp_socket.h"
#include "rdma_engine/wire/roce.h"
#include "rdma_engine/wire/roce_icrc.h"

namespace jaxina::roce {

enum class IcrcPolicy : std::uint8_t {
  kCheck,   // drop packets that no identification explains, see BlindIcrcCheck
  kIgnore,  // the senders do not write it
};

// One write: where it goes and what it carries. The payload may lie in two parts.
struct Write {
  Address peer;
  std::uint32_t qpn = 0;
  std::uint32_t rkey = 0;
  std::uint64_t address = 0;
  std::uint32_t immediate = 0;
  std::span<const std::uint8_t> head, tail;
  std::size_t size() const { return head.size() + tail.size(); }
};

class RoceSocket {
 public:
  // `host` must be one address of this host, as the ICRC covers it. Throws Error: see udp::UdpSocket.
  // Without `offload` every packet passes the kernel alone.
  RoceSocket(const std::string& host, std::uint16_t port, IcrcPolicy policy, bool offload = true);

  std::string address() const;
  std::uint16_t port() const { return flow_.source_port; }
  std::size_t receive_capacity() const { return socket_.receive_capacity(); }

  // Queues the packets of a write; `psn` is its first and then the next one's.
  void send(const Write& write, std::size_t mtu, std::uint32_t& psn);
  Status flush() { return sender_.flush(); }

  // Takes what has arrived and calls visit(packet, from) for each sound packet. Returns how many came, sound or not.
  template <typename Visit>
  std::size_t receive(Visit visit) {
    return receiver_.receive([&](std::span<const std::uint8_t> datagram, const Address& from) {
      Packet packet;
      if (accept(datagram, from, packet)) visit(packet, from);
    });
  }

  void wait(Nanoseconds timeout) { socket_.wait_readable(timeout); }
  void interrupt() { socket_.interrupt(); }

  struct Counters {
    std::uint64_t packets_sent = 0, packets_received = 0;
    std::uint64_t bytes_sent = 0, bytes_received = 0;  // IP packets
    std::uint64_t malformed = 0, wrong_icrc = 0;
  };
  const Counters& counters() const { return counters_; }

 private:
  bool accept(std::span<const std::uint8_t> datagram, const Address& from, Packet& packet);
  void send_packet(const Write& write, const Headers& headers, std::size_t offset, std::size_t size);

  udp::UdpSocket socket_;
  udp::DatagramReceiver receiver_;
  udp::DatagramSender sender_;
  Flow flow_;  // from here; the destination changes with every write
  IcrcPolicy policy_;
  BlindIcrcCheck check_;
  Counters counters_;
};

}  // namespace jaxina::roce
