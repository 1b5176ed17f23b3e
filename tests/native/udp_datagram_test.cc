// Tests batches of datagrams through real sockets. With and without the kernel's segmentation, no datagram may be lost,
// cut or mixed with another.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <map>
#include <vector>

#include "rdma_engine/net/datagram_receiver.h"
#include "rdma_engine/net/datagram_sender.h"
#include "rdma_engine/net/loss_filter.h"

namespace jaxina::net {
namespace {

Address loopback() { return resolve("127.0.0.1", 0, ErrorCode::kSystem); }

using Packets = std::vector<std::vector<std::uint8_t>>;

// Returns packets of mixed sizes, including odd and empty ones, and runs of equal size.
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
      DatagramSender sender(source, WhenFull::kWait);
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
  // Checksums are switched off. The kernel then refuses to segment, as it does for devices that cannot segment.
  UdpSocket source(loopback(), {}), target(loopback(), {});
  if (!source.segments()) GTEST_SKIP() << "this kernel has no UDP_SEGMENT";
  const int off = 1;
  ASSERT_EQ(setsockopt(source.fd(), SOL_SOCKET, SO_NO_CHECK, &off, sizeof(off)), 0);
  DatagramSender sender(source, WhenFull::kWait);
  const Packets packets = mixed_packets();
  send_all(sender, packets, {target.local()});
  EXPECT_EQ(sender.packets_unsent(), 0u);
  DatagramReceiver receiver(target);
  EXPECT_EQ(receive_all(receiver, target, packets.size(), source.local()), packets);
}

// Sends two packets to this address. True if they go out as one message.
bool merges(DatagramSender& sender, const Address& to) {
  std::uint8_t* room = sender.reserve(8);
  std::memset(room, 7, 8);
  sender.add(to, {room, 8});
  const bool merged = sender.add(to, {room, 8}) == 1;
  EXPECT_TRUE(sender.flush().ok());
  return merged;
}

TEST(UdpDatagrams, ADestinationThatRefusesSegmentsDoesNotStopSegmentsForOthers) {
  UdpSocket source(loopback(), {}), target(loopback(), {});
  if (!source.segments()) GTEST_SKIP() << "this kernel has no UDP_SEGMENT";
  DatagramSender sender(source, WhenFull::kDrop);
  const Address nobody = resolve("127.0.0.1", 0, ErrorCode::kSystem);
  EXPECT_TRUE(merges(sender, target.local()));
  EXPECT_TRUE(merges(sender, nobody));
  EXPECT_FALSE(merges(sender, nobody)) << "it was refused";
  EXPECT_TRUE(merges(sender, target.local()));
}

TEST(UdpDatagrams, SegmentationIsTriedAgain) {
  UdpSocket source(loopback(), {}), target(loopback(), {});
  if (!source.segments()) GTEST_SKIP() << "this kernel has no UDP_SEGMENT";
  const auto no_checksums = [&](int value) {
    ASSERT_EQ(setsockopt(source.fd(), SOL_SOCKET, SO_NO_CHECK, &value, sizeof(value)), 0);
  };
  const auto flushes_until_merged = [&](DatagramSender& sender) {
    int flushes = 1;
    while (!merges(sender, target.local()) && flushes < 1000) ++flushes;
    return flushes;
  };
  DatagramSender sender(source, WhenFull::kDrop);
  no_checksums(1);
  EXPECT_EQ(flushes_until_merged(sender), 1);
  EXPECT_EQ(flushes_until_merged(sender), 16 + 1);
  EXPECT_EQ(flushes_until_merged(sender), 32 + 1) << "refused again: longer";
  no_checksums(0);
  EXPECT_EQ(flushes_until_merged(sender), 64 + 1);
  EXPECT_EQ(flushes_until_merged(sender), 1) << "taken: for good";
  no_checksums(1);
  EXPECT_EQ(flushes_until_merged(sender), 1);
  EXPECT_EQ(flushes_until_merged(sender), 16 + 1) << "refused anew";
  EXPECT_EQ(sender.packets_unsent(), 0u);
}

TEST(UdpDatagrams, SequencesShareMessagesAndEachKeepsItsOrder) {
  for (const bool offload : {true, false}) {
    SCOPED_TRACE(offload ? "with segmentation" : "without");
    UdpSocket source(loopback(), {.offload = offload}), target(loopback(), {});
    DatagramSender sender(source, WhenFull::kWait);
    // Packets are cut as in RDMA messages: the first is longer, and the last is short. Each sequence has two messages
    // under way.
    std::vector<std::size_t> numbers;
    std::map<int, Packets> sent, received;
    for (const int sequence : {1, 2, 3, 1, 2, 3}) {
      for (int i = 0; i < 30; ++i) {
        const std::size_t size = i == 0 ? 1056 : i < 29 ? 1040 : 44;
        std::uint8_t* room = sender.reserve(size);
        ASSERT_NE(room, nullptr);
        std::memset(room, static_cast<int>(sent[sequence].size()), size);
        room[0] = static_cast<std::uint8_t>(sequence);
        const auto name = static_cast<std::uint32_t>(sequence);
        numbers.push_back(sender.add(target.local(), {room, size}, Priority::kNormal, name));
        sent[sequence].emplace_back(room, room + size);
      }
    }
    ASSERT_TRUE(sender.flush().ok());
    if (source.segments()) {
      EXPECT_EQ(numbers[0], 0u);
      EXPECT_EQ(numbers[30], 1u) << "the second sequence's first packet joins the first one's";
      EXPECT_EQ(numbers[31], 28u) << "and what follows it those that follow";
      EXPECT_EQ(numbers[90], 0u) << "but a sequence's second message does not overtake its first";
    }
    DatagramReceiver receiver(target);
    for (const auto& packet : receive_all(receiver, target, numbers.size(), source.local())) {
      received[packet[0]].push_back(packet);
    }
    EXPECT_EQ(received, sent);
  }
}

TEST(UdpDatagrams, UnsendablePacketsAreCountedAndTheOthersAreSent) {
  UdpSocket source(loopback(), {}), target(loopback(), {});
  DatagramSender sender(source, WhenFull::kWait);
  std::uint8_t* room = sender.reserve(8);
  std::memset(room, 7, 8);
  sender.add(resolve("127.0.0.1", 0, ErrorCode::kSystem), {room, 8});  // cannot be sent: no socket has port 0
  sender.add(target.local(), {room, 8});
  EXPECT_TRUE(sender.flush().ok()) << "one destination is not the socket";
  EXPECT_EQ(sender.packets_unsent(), 1u);
  DatagramReceiver receiver(target);
  EXPECT_EQ(receive_all(receiver, target, 1, source.local()), Packets{std::vector<std::uint8_t>(8, 7)});
}

TEST(UdpDatagrams, ASocketThatCanNeverSendIsAnError) {
  UdpSocket source(loopback(), {}), target(loopback(), {});
  DatagramSender sender(source, WhenFull::kWait);
  const FileDescriptor file(open("/dev/null", O_WRONLY | O_CLOEXEC));
  ASSERT_GE(dup3(file.get(), source.fd(), O_CLOEXEC), 0);
  std::uint8_t* room = sender.reserve(8);
  std::memset(room, 7, 8);
  sender.add(target.local(), {room, 8});
  EXPECT_EQ(sender.flush().code, ErrorCode::kSystem);
  EXPECT_EQ(sender.packets_unsent(), 1u);
}

TEST(UdpDatagrams, AFullReceiveBufferIsCounted) {
  UdpSocket source(loopback(), {.offload = false});
  UdpSocket target(loopback(), {.receive_buffer = 20'000, .offload = false});
  DatagramSender sender(source, WhenFull::kWait);
  DatagramReceiver receiver(target);
  std::uint64_t sent = 0, received = 0;
  const auto send = [&](int packets) {
    for (int i = 0; i < packets; ++i, ++sent) sender.add(target.local(), {sender.reserve(1000), 1000});
    ASSERT_TRUE(sender.flush().ok());
  };
  const auto drain = [&] {
    const auto ignore = [](std::span<const std::uint8_t>, const Address&) {};
    while (const std::size_t got = receiver.receive(ignore)) received += got;
  };
  send(5);
  drain();
  EXPECT_EQ(receiver.overflows(), 0u);
  EXPECT_FALSE(receiver.take_overflow());
  for (int round = 0; round < 3; ++round) {
    send(200);
    drain();
    send(1);  // the kernel reports earlier drops with the next packet
    drain();
    EXPECT_GT(receiver.overflows(), 0u);
    EXPECT_EQ(receiver.overflows(), sent - received);
    EXPECT_TRUE(receiver.take_overflow());
    EXPECT_FALSE(receiver.take_overflow());
  }
}

TEST(WrappingCounter, AddsUpAcrossTheWrap) {
  WrappingCounter counter(0xffff'fff0u);
  counter.update(0xffff'fffeu);
  EXPECT_EQ(counter.total(), 14u);
  counter.update(5);
  EXPECT_EQ(counter.total(), 21u);
  counter.update(5);
  EXPECT_EQ(counter.total(), 21u);
}

TEST(SocketAddress, SomeAddressesCannotBeAnswered) {
  const auto answerable = [](const char* host, std::uint16_t port) {
    return can_be_answered(resolve(host, port, ErrorCode::kSystem));
  };
  for (const char* host : {"127.0.0.1", "10.1.2.255", "223.255.255.255", "::1", "fe80::1", "::ffff:10.0.0.1"}) {
    EXPECT_TRUE(answerable(host, 1)) << host;
    EXPECT_FALSE(answerable(host, 0)) << host << " port 0";
  }
  for (const char* host : {"0.0.0.0", "224.0.0.1", "239.255.255.255", "255.255.255.255", "::", "ff02::1",
                           "::ffff:0.0.0.0", "::ffff:224.0.0.1", "::ffff:255.255.255.255"}) {
    EXPECT_FALSE(answerable(host, 4791)) << host;
  }
  EXPECT_FALSE(can_be_answered({}));
}

TEST(SocketAddress, AddressesWithDifferentLocalSidesDiffer) {
  Address a = resolve("10.0.0.1", 7, ErrorCode::kSystem), b = a;
  EXPECT_EQ(HashAddress{}(a), HashAddress{}(b));
  b.local[0] = 10;
  EXPECT_NE(a, b);
  EXPECT_NE(HashAddress{}(a), HashAddress{}(b));
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
}  // namespace jaxina::net
