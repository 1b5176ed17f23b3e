// RoceSocket: RoCEv2 over a UDP socket. It cuts writes into packets and sends them with GSO, passes arriving packets
// on, and computes and checks the ICRC. IPv4 only. Not thread-safe, except interrupt().
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "rdma_engine/base/counters.h"
#include "rdma_engine/net/datagram_receiver.h"
#include "rdma_engine/net/datagram_sender.h"
#include "rdma_engine/net/udp_socket.h"
#include "rdma_engine/wire/roce.h"
#include "rdma_engine/wire/roce_icrc.h"
#include "rdma_engine/wire/write.h"

namespace jaxina::roce {

// How many batches of packets a worker takes in a row before it sends, and looks at its timers.
inline constexpr int kBatchesInARow = 16;

enum class IcrcPolicy : std::uint8_t {
  kCheck,   // drop packets whose ICRC no identification explains, see BlindIcrcCheck
  kIgnore,  // for senders that do not write it
};

class RoceSocket {
 public:
  // `host` must be one address of this host, because the ICRC covers it. Without `offload` the kernel handles every
  // packet separately. Packets of another service are malformed. Throws Error like net::UdpSocket.
  RoceSocket(const std::string& host, std::uint16_t port, IcrcPolicy policy, net::WhenFull when_full,
             bool offload = true, Service service = Service::kUnreliable);

  std::string address() const;
  std::uint16_t port() const { return flow_.source_port; }

  // Queues the packets of an unreliable write. `psn` is the first packet's sequence number; on return it is the next
  // write's.
  void send(const Write& write, std::size_t mtu, std::uint32_t& psn);
  // Queues one packet to write.peer, with the write's payload bytes [offset, offset + size).
  void send_packet(const Write& write, const Headers& headers, std::size_t offset, std::size_t size);
  Status flush() { return sender_.flush(); }

  // Takes the packets that have arrived and calls visit(packet, from) for each sound one. It first asks
  // is_known(headers, from) and drops the packet if that returns false, because the headers are much cheaper to look at
  // than the ICRC. Returns how many packets arrived.
  template <typename IsKnown, typename Visit>
  std::size_t receive(IsKnown is_known, Visit visit) {
    return receiver_.receive([&](std::span<const std::uint8_t> datagram, const Address& from) {
      Packet packet;
      if (take_apart(datagram, packet) && is_known(packet.headers, from) && is_sound(datagram, from, packet)) {
        visit(packet, from);
      }
    });
  }

  void wait(Nanoseconds timeout) { socket_.wait_readable(timeout); }
  void interrupt() { socket_.interrupt(); }
  // To be polled for packets to receive.
  int fd() const { return socket_.fd(); }

  // Counts packets, bytes of IP packets, and the reasons for dropping packets.
  Counters counters() const;

 private:
  bool take_apart(std::span<const std::uint8_t> datagram, Packet& packet);
  bool is_sound(std::span<const std::uint8_t> datagram, const Address& from, const Packet& packet);

  net::UdpSocket socket_;
  net::DatagramReceiver receiver_;
  net::DatagramSender sender_;
  Flow flow_;  // from this socket; send_packet() sets the destination
  IcrcPolicy policy_;
  Service service_;
  BlindIcrcCheck check_;
  Counters counters_;
};

}  // namespace jaxina::roce
