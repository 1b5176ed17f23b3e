// Prints captured frames as hexadecimal lines; runs in the guest. `verbs_capture writes` prints the frames that
// Soft-RoCE makes of a few RDMA writes; the vectors in tests/native/roce_frames.txt were made this way. `verbs_capture
// message` prints a worker's message of 16 packets and the switch's reply, for decode_message.py.
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstdio>
#include <vector>

#include "rdma_engine/transport/verbs/verbs_queue_pairs.h"
#include "tests/verbs/guest_workers.h"

using namespace jaxina;

namespace {

constexpr std::size_t kMessages[] = {0, 1, 16, 1022, 1024, 2048 + 16, 3 * 1024 + 5};
constexpr std::uint32_t kPeerQueuePair = 0xabcde0;

void print_frames(int packets) {
  for (int waited = 0; waited < 20;) {
    pollfd wait = {packets, POLLIN, 0};
    if (poll(&wait, 1, 100) == 0) {
      ++waited;
      continue;
    }
    std::uint8_t frame[9000];
    const ssize_t size = recv(packets, frame, sizeof(frame), 0);
    const bool roce =
        size > 42 && frame[12] == 8 && frame[23] == IPPROTO_UDP && (frame[36] << 8 | frame[37]) == roce::kUdpPort;
    if (!roce) continue;
    std::printf("frame ");
    for (ssize_t i = ETH_HLEN; i < size; ++i) std::printf("%02x", frame[i]);
    std::printf("\n");
  }
}

int open_packets() {
  return guest::in_peer([] { return socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL)); });
}

void writes() {
  const int packets = open_packets();
  verbs::VerbsQueuePairs pairs({.device = {}, .address = "", .mtu = 1024, .first_psn = 0xfffffe}, 1, 8192, 8192);
  roce::ConnectionEnd peer;
  peer.address = "10.9.0.2";
  peer.mtu = 1024;
  peer.qpns = {kPeerQueuePair};
  peer.rkey = 0x01234567;
  pairs.connect(peer);
  for (std::size_t i = 0; i < pairs.send_memory().size(); ++i)
    pairs.send_memory()[i] = static_cast<std::uint8_t>(i * 7);
  std::vector<roce::QueuePairs::Arrival> none;
  for (const std::size_t size : kMessages) {
    pairs.post_write(0, pairs.send_memory().first(size), {}, 0x1122334455660000 + size,
                     0xcafe0000 + static_cast<std::uint32_t>(size));
    for (int i = 0; i < 50 && pairs.poll(none).ok(); ++i) poll(nullptr, 0, 1);
  }
  print_frames(packets);
}

void message() {
  RoceSwitchConfig config;
  config.address = guest::kPeer;
  config.offload = false;  // with GSO, several packets would be captured as one
  const auto roce_switch = guest::in_peer([&] { return std::make_unique<RoceSwitch>(config); });
  // With whole chunks there are no check words, so the message consists of the words only.
  JobSpec job = guest::job_of(1, 1);
  job.shape = JobShape(
      {.devices = 1, .workers = 1, .slots = 4, .block_size = 256, .blocks_per_chunk = 16, .whole_chunks = true});
  roce_switch->add_job(job);
  const auto endpoint = guest::join(*roce_switch, job, 0, guest::Kind::kVerbs);
  std::vector<std::int32_t> in(16 * 256), out(in.size());
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<std::int32_t>(i);
  const int packets = open_packets();
  endpoint->worker().submit({{{ElementType::kInt32, in.size(), in.data(), out.data()}}});
  const Status status = guest::run_to_end(*endpoint);
  std::printf("status %s, %s\n", status.text().c_str(), in == out ? "the sum is right" : "the sum is wrong");
  print_frames(packets);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "message") {
    message();
  } else {
    writes();
  }
  return 0;
}
