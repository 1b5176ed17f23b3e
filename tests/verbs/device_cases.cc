#include "tests/verbs/device_cases.h"

#include <arpa/inet.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>

#include "tests/verbs/expect.h"
#include "tests/verbs/guest_workers.h"

namespace jaxina::guest {
namespace {

void wait_briefly() { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }

// Collects arrivals until there are `wanted` of them, or a second has passed.
std::vector<roce::QueuePairs::Arrival> collect(roce::QueuePairs& pairs, std::size_t wanted) {
  std::vector<roce::QueuePairs::Arrival> arrivals;
  for (int i = 0; i < 50 && arrivals.size() < wanted; ++i) {
    expect(pairs.poll(arrivals).ok(), "completions can be read");
    if (arrivals.size() < wanted) wait_briefly();
  }
  return arrivals;
}

// Writes messages of many sizes from one device to the other, and compares memory and immediates.
void exchange(roce::QueuePairs& from, roce::QueuePairs& to, const char* way, std::span<std::uint8_t> words = {}) {
  constexpr std::size_t kSizes[] = {0, 1, 3, 4, 1023, 1024, 1025, 2048, 16 * 1024 + 16};
  std::size_t right = 0;
  for (const std::size_t size : kSizes) {
    std::vector<std::uint8_t> message(size);
    for (std::size_t i = 0; i < size; ++i) message[i] = static_cast<std::uint8_t>(i * 31 + size);
    // The message has two parts. The first lies in `words` if that is given, and the second behind a gap.
    const std::size_t head = size / 4 * 3;
    const std::span<std::uint8_t> memory = words.empty() ? from.send_memory() : words;
    const std::span<std::uint8_t> first = memory.first(head),
                                  second = from.send_memory().subspan(head + 64, size - head);
    std::copy_n(message.begin(), head, first.begin());
    std::copy_n(message.begin() + static_cast<std::ptrdiff_t>(head), size - head, second.begin());
    from.post_write(0, first, second, to.local().memory + 8, 0xab000000 + static_cast<std::uint32_t>(size));
    expect(from.flush().ok(), "a write can be sent");
    const auto arrivals = collect(to, 1);
    const bool arrived =
        arrivals.size() == 1 && arrivals[0].bytes == size && arrivals[0].immediate == 0xab000000 + size;
    right += arrived && std::memcmp(to.receive_memory().data() + 8, message.data(), size) == 0;
    std::vector<roce::QueuePairs::Arrival> none;
    expect(from.poll(none).ok() && none.empty(), "the sender gets nothing");
  }
  std::printf("  %s: %zu of %zu messages as they were sent\n", way, right, std::size(kSizes));
  expect(right == std::size(kSizes), way);
}

struct Pair {
  std::unique_ptr<roce::QueuePairs> verbs = make_pairs(Kind::kVerbs, 2, 32768, 32768, 0xfffff8);
  std::unique_ptr<roce::QueuePairs> socket = in_peer([] {
    roce::SocketOptions options;
    options.host = kPeer;
    options.port = roce::kUdpPort;
    options.first_psn = 0xfffff8;
    return std::make_unique<roce::SocketQueuePairs>(options, 2, 32768, 32768);
  });
  void connect() {
    verbs->connect(socket->local());
    in_peer([&] { return socket->connect(verbs->local()), 0; });
  }
};

// Sends packets that no correct device would send, from a port of the other namespace.
class RawSender {
 public:
  RawSender() : socket_(in_peer([] { return socket(AF_INET, SOCK_DGRAM, 0); })) {
    const int discover = IP_PMTUDISC_DO;
    setsockopt(socket_, IPPROTO_IP, IP_MTU_DISCOVER, &discover, sizeof(discover));
    const sockaddr_in from = address(kPeer, kSource);
    expect(bind(socket_, reinterpret_cast<const sockaddr*>(&from), sizeof(from)) == 0, "the port is free");
  }
  ~RawSender() { close(socket_); }
  // `flip` damages the ICRC.
  void send(const roce::Headers& headers, std::size_t payload, std::uint32_t flip = 0) {
    std::vector<std::uint8_t> packet(roce::header_size(headers.opcode) + payload + roce::kIcrcSize, 0x77);
    roce::write(headers, packet.data());
    const std::span<const std::uint8_t> covered(packet.data(), packet.size() - roce::kIcrcSize);
    const std::uint32_t icrc = roce::icrc({{10, 9, 0, 2}, {10, 9, 0, 1}, kSource, roce::kUdpPort}, {}, covered);
    roce::store_icrc(icrc ^ flip, packet.data() + covered.size());
    const sockaddr_in to = address(kHere, roce::kUdpPort);
    expect(sendto(socket_, packet.data(), packet.size(), 0, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) > 0,
           "a packet can be sent");
  }

 private:
  static constexpr std::uint16_t kSource = 50001;
  static sockaddr_in address(const char* host, std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    inet_pton(AF_INET, host, &address.sin_addr);
    return address;
  }
  int socket_;
};

std::unique_ptr<roce::QueuePairs> verbs_to_nobody() {
  auto pairs = make_pairs(Kind::kVerbs, 1, 4096, 8192);
  pairs->connect(
      {.address = kPeer, .udp_port = roce::kUdpPort, .mtu = 1024, .qpns = {0x1234}, .psn = 0, .rkey = 0, .memory = 0});
  return pairs;
}

}  // namespace

void interoperate() {
  Pair pair;
  pair.connect();
  exchange(*pair.socket, *pair.verbs, "roce writes into Soft-RoCE's memory");
  exchange(*pair.verbs, *pair.socket, "Soft-RoCE writes into roce's memory");
  // Soft-RoCE cannot register dma-bufs. Without one, memory is registered by its address, as a GPU's is with
  // nvidia-peermem.
  const int no_dmabuf = memfd_create("words", MFD_CLOEXEC);
  roce::MessageMemory words(32768);
  auto* const address = reinterpret_cast<std::byte*>(words.bytes().data());
  const auto memory = [&](int dmabuf) {
    return [&, dmabuf] { return ExportedMemory{{address, [](std::byte*) {}}, words.bytes().size(), dmabuf}; };
  };
  expect(!pair.verbs->adopt(memory(no_dmabuf)), "what is no dma-buf is not adopted");
  close(no_dmabuf);
  exchange(*pair.verbs, *pair.socket, "and after memory that it could not adopt");
  expect(pair.verbs->adopt(memory(-1)), "memory with an address is adopted");
  exchange(*pair.verbs, *pair.socket, "Soft-RoCE gathers messages from adopted memory and its own", words.bytes());
}

// Tells each side a wrong key of the other.
void wrong_keys() {
  Pair pair;
  roce::ConnectionEnd verbs_end = pair.verbs->local(), socket_end = pair.socket->local();
  verbs_end.rkey ^= 0x100;
  socket_end.rkey ^= 0x100;
  pair.verbs->connect(socket_end);
  in_peer([&] { return pair.socket->connect(verbs_end), 0; });
  for (roce::QueuePairs* from : {pair.verbs.get(), pair.socket.get()}) {
    roce::QueuePairs* to = from == pair.verbs.get() ? pair.socket.get() : pair.verbs.get();
    std::memset(from->send_memory().data(), 0x55, 64);
    from->post_write(0, from->send_memory().first(64), {}, to->local().memory, 1);
    expect(from->flush().ok(), "a write can be sent");
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  expect(collect(*pair.verbs, 1).empty() && collect(*pair.socket, 1).empty(), "nothing arrives");
  expect(pair.verbs->receive_memory()[0] == 0 && pair.socket->receive_memory()[0] == 0, "nothing is written");
  expect(pair.socket->counters()[Counter::kPacketsRejected] == 1, "it is counted");
  std::printf("  writes with a wrong rkey: refused by both sides\n");
}

void wrong_icrc() {
  const auto pairs = verbs_to_nobody();
  const roce::ConnectionEnd& end = pairs->local();
  const roce::Headers headers{.qpn = end.qpns[0], .address = end.memory, .rkey = end.rkey, .length = 4, .immediate = 9};
  RawSender sender;
  sender.send(headers, 4, 0x10000);
  expect(collect(*pairs, 1).empty(), "a wrong ICRC is dropped");
  sender.send(headers, 4);
  expect(collect(*pairs, 1).size() == 1, "the right ICRC is taken");
  std::printf("  one bit of the ICRC wrong: Soft-RoCE drops the packet, and takes it when it is right\n");
}

// Sends a message whose middle is lost, and finds out what it takes until the next message arrives.
void recover() {
  const auto pairs = verbs_to_nobody();
  const roce::ConnectionEnd& end = pairs->local();
  RawSender sender;
  const auto message = [&](std::uint32_t psn, bool whole) {
    roce::Headers h{.opcode = roce::Opcode::kWriteFirst,
                    .qpn = end.qpns[0],
                    .psn = psn,
                    .address = end.memory,
                    .rkey = end.rkey,
                    .length = 3072,
                    .immediate = psn};
    sender.send(h, 1024);
    h.opcode = roce::Opcode::kWriteMiddle, h.psn = psn + 1;
    if (whole) sender.send(h, 1024);
    h.opcode = roce::Opcode::kWriteLastImm, h.psn = psn + 2;
    sender.send(h, 1024);
    return collect(*pairs, 1).size();
  };
  expect(message(0, true) == 1, "a whole message arrives");
  expect(message(3, false) == 0, "a message without its middle does not");
  const bool resumes = message(6, true) == 1;
  const auto start = std::chrono::steady_clock::now();
  expect(pairs->reset(0).ok(), "a queue pair can be reset");
  const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  expect(message(9, true) == 1, "a reset queue pair takes messages");
  std::printf("  after a lost middle Soft-RoCE %s the next message; a reset takes %.1f ms, then messages arrive\n",
              resumes ? "takes" : "does not take", ms);
}

// What is said of devices, ports and GIDs that are not there.
void refused_devices() {
  const auto refusal = [](const RdmaDevice& device, const std::string& address = "") -> std::string {
    try {
      verbs::open_device(device, address);
    } catch (const Error& error) {
      std::printf("  %s\n", error.what());
      return error.status().code == ErrorCode::kInvalidArgument ? error.status().message : "";
    }
    return "";
  };
  const auto says = [](const std::string& message, const char* text) {
    expect(message.find(text) != std::string::npos, text);
  };
  says(refusal({.name = "none9"}), "there is no RDMA device none9; this host has rxe0");
  says(refusal({.name = "rxe0", .port = 9}), "rxe0 has no port 9: its ports are 1 to 1");
  says(refusal({.name = "rxe0", .port = 1, .gid_index = 200}), "rxe0 port 1 has no such GID");
  says(refusal({}, "10.1.2.3"), "rxe0 port 1 has no such GID");
  const verbs::Device device = verbs::open_device({.name = "rxe0", .port = 1}, kHere);
  expect(device.retries_forever, "Soft-RoCE takes 7 retries for no limit");
  expect(verbs::open_device({.gid_index = device.gid_index}, "").address == kHere, "the GID that it has found");
}

}  // namespace jaxina::guest
