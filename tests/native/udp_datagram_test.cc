// Batches of datagrams through real sockets: with and without the kernel's segmentation nothing is lost, cut or mixed.
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <vector>

#include "rdma_engine/transport/udp/datagram_receiver.h"
#include "rdma_engine/transport/udp/datagram_sender.h"
#include "rdma_engine/transport/udp/loss_filter.h"

namespace jaxina::udp {
namespace {

Address loopback() { return resolve("127.0.0.1", 0, ErrorCode::kSystem); }

using Packets = std::vector<std::vector<std::uint8_t>>;

// Packets of mixed sizes, odd and empty ones among them, in runs of equal size as well.
Packets mixed_packets() {
  Packets packets;
  for (const std::size_t size : {1100, 1100, 1100, 700, 1100, 3, 0, 1, 64, 64, 65507, 2048, 2048, 2049, 2049}) {
    packets.emplace_back(size);
    for (std::size_t i = 0; i < size; ++i) packets.back()[i] = static_cast<std::uint8_t>(i * 31 + packets.size());
  }
  for (int i = 0; i < 200; ++i) packets.emplace_back(500, static_cast<std::uint8_t>(i));
  return packets;
}

void send_all(DatagramSender& sender, const Packets& packets, const std::vector<Address>& to) {
  for (const auto& packet : packets) {
    std::uint8_t* room = sender.reserve(packet.size());
    if (room == nullptr) {
      ASSERT_TRUE(sender.flush().ok());
      room = sender.reserve(packet.size());
    }
    if (!packet.empty()) std::memcpy(room, packet.data(), packet.size());
    for (const Address& address : to) sender.add(address, {room, packet.size()});
  }
  ASSERT_TRUE(sender.flush().ok());
}

Packets receive_all(DatagramReceiver& receiver, UdpSocket& socket, std::size_t count, const Address& source) {
  Packets packets;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (packets.size() < count && std::chrono::steady_clock::now() < deadline) {
    const std::size_t got = receiver.receive([&](std::span<const std::uint8_t> packet, const Address& from) {
      EXPECT_EQ(from, source);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(packet.data()) % 4, 0u);
      packets.emplace_back(packet.begin(), packet.end());
    });
    if (got == 0) socket.wait_readable(100'000'000);
  }
  return packets;
}

TEST(UdpDatagrams, ArriveWholeAndInOrderAtEveryDestination) {
  for (const bool sender_offloads : {true, false}) {
    for (const bool receivers_offload : {true, false}) {
      SCOPED_TRACE(std::string(sender_offloads ? "with" : "without") + " segmentation to " +
                   (receivers_offload ? "with" : "without") + " coalescing");
      UdpSocket source(loopback(), {.offload = sender_offloads});
      UdpSocket first(loopback(), {.offload = receivers_offload}), second(loopback(), {.offload = receivers_offload});
      DatagramSender sender(source);
      const Packets packets = mixed_packets();
      send_all(sender, packets, {first.local(), second.local()});
      EXPECT_EQ(sender.packets_unsent(), 0u);
      for (UdpSocket* socket : {&first, &second}) {
        DatagramReceiver receiver(*socket);
        EXPECT_EQ(receive_all(receiver, *socket, packets.size(), source.local()), packets);
      }
    }
  }
}

TEST(UdpDatagrams, ARefusedSegmentationFallsBackToSinglePackets) {
  // Checksums switched off: the kernel then refuses to segment, as it does for devices that cannot.
  UdpSocket source(loopback(), {}), target(loopback(), {});
  if (!source.segments()) GTEST_SKIP() << "this kernel has no UDP_SEGMENT";
  const int off = 1;
  ASSERT_EQ(setsockopt(source.fd(), SOL_SOCKET, SO_NO_CHECK, &off, sizeof(off)), 0);
  DatagramSender sender(source);
  const Packets packets = mixed_packets();
  send_all(sender, packets, {target.local()});
  EXPECT_EQ(sender.packets_unsent(), 0u);
  DatagramReceiver receiver(target);
  EXPECT_EQ(receive_all(receiver, target, packets.size(), source.local()), packets);
}

TEST(UdpDatagrams, WhatCannotBeSentIsCountedAndTheRestGoesOut) {
  UdpSocket source(loopback(), {}), target(loopback(), {});
  DatagramSender sender(source);
  std::uint8_t* room = sender.reserve(8);
  std::memset(room, 7, 8);
  sender.add(resolve("127.0.0.1", 0, ErrorCode::kSystem), {room, 8});  // nothing has port 0
  sender.add(target.local(), {room, 8});
  EXPECT_EQ(sender.flush().code, ErrorCode::kSystem);
  EXPECT_EQ(sender.packets_unsent(), 1u);
  DatagramReceiver receiver(target);
  EXPECT_EQ(receive_all(receiver, target, 1, source.local()), Packets{std::vector<std::uint8_t>(8, 7)});
}

TEST(LossFilter, DropsItsShareAndTheSamePacketsForTheSameSeed) {
  LossFilter a(0.1, 5), b(0.1, 5), never(0, 5), always(1, 5);
  int dropped = 0;
  for (int i = 0; i < 100'000; ++i) {
    const bool drops = a.drops();
    EXPECT_EQ(b.drops(), drops);
    EXPECT_FALSE(never.drops());
    EXPECT_TRUE(always.drops());
    dropped += drops;
  }
  EXPECT_NEAR(dropped, 10'000, 500);  // five standard deviations
}

}  // namespace
}  // namespace jaxina::udp
