// Usage: rc_ring RANK MESSAGES BYTES WINDOW TIMEOUT RETRIES LATE_S. One of two workers in a ring of reliable
// connections, each in its own guest. Worker 0 is 10.9.0.1. It has one connection to the other worker and one from it,
// and knows of no switch. Each message is BYTES of words, written into the other worker's memory with the message's
// number as immediate. At most WINDOW messages are unanswered: message m + WINDOW leaves after message m of the other
// worker has come. Worker 1 begins LATE_S seconds late. TIMEOUT and RETRIES are the queue pairs': 4.096 us 2^TIMEOUT,
// or never with 0.
//
// It prints how many messages arrived as the sum of both workers' words, as the other worker's words alone, or as
// neither, and Soft-RoCE's counters.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "rdma_engine/errors.h"
#include "rdma_engine/transport/verbs/device.h"

using namespace jaxina;
using Seconds = std::chrono::duration<double>;

namespace {

constexpr std::array<const char*, 2> kAddresses = {"10.9.0.1", "10.9.0.2"};
constexpr std::uint16_t kPort = 9000;
constexpr std::uint32_t kFirstPsn = 0xfffff0;  // as in summing_switch.py; it wraps after 16 packets
constexpr std::uint64_t kSend = 1, kReceive = 2;

[[noreturn]] void fail(const std::string& what) { throw Error(ErrorCode::kSystem, what + ": " + std::strerror(errno)); }

// Some calls of libibverbs return the error, and need not set errno.
void succeed(int error, const char* call) {
  if (error == 0) return;
  errno = error;
  fail(call);
}

// What a worker tells the other one before they begin.
struct End {
  std::uint32_t out, in, rkey;
  std::uint64_t memory;
};

sockaddr_in address_of(int rank) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(kPort);
  inet_pton(AF_INET, kAddresses.at(static_cast<std::size_t>(rank)), &address.sin_addr);
  return address;
}

int connect_to(int rank) {
  for (int attempt = 0; attempt < 300; ++attempt) {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    const sockaddr_in address = address_of(rank);
    if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) return fd;
    close(fd);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // the other guest may still be booting
  }
  fail("no connection to the other guest");
}

int accept_as(int rank) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  const sockaddr_in address = address_of(rank);
  if (bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 || listen(listener, 1) != 0)
    fail("cannot listen");
  const int fd = accept(listener, nullptr, nullptr);
  close(listener);
  return fd;
}

End exchange(int fd, const End& mine) {
  End other{};
  if (write(fd, &mine, sizeof(mine)) != sizeof(mine)) fail("write");
  if (recv(fd, &other, sizeof(other), MSG_WAITALL) != sizeof(other)) fail("the other worker is gone");
  return other;
}

std::uint32_t word_of(int rank, std::size_t message, std::size_t i) {
  return static_cast<std::uint32_t>(message * 1000003 + i * 7919 + static_cast<std::size_t>(rank) * 0x10000001);
}

struct Options {
  int rank;
  std::size_t messages, bytes, window;
  std::uint8_t timeout, retries;
  double late_s;
};

class Worker {
 public:
  explicit Worker(const Options& options)
      : options_(options),
        device_(verbs::open_device({}, kAddresses.at(static_cast<std::size_t>(options.rank)))),
        send_(options.window * options.bytes),
        receive_(2 * options.window * options.bytes),
        send_region_(verbs::register_host(device_, send_)),
        receive_region_(verbs::register_host(device_, receive_)),
        completions_(ibv_create_cq(device_.context.get(), static_cast<int>(4 * options.window), nullptr, nullptr, 0)),
        out_(create()),
        in_(create()) {}

  void run() {
    const int fd = options_.rank == 0 ? accept_as(0) : connect_to(0);
    const End mine{out_->qp_num, in_->qp_num, receive_region_->rkey, reinterpret_cast<std::uint64_t>(receive_.data())};
    other_ = exchange(fd, mine);
    connect(out_.get(), other_.in);
    connect(in_.get(), other_.out);
    for (std::size_t i = 0; i < options_.window; ++i) post_receive();
    exchange(fd, mine);  // both are ready
    if (options_.rank == 1) std::this_thread::sleep_for(Seconds(options_.late_s));
    const auto start = std::chrono::steady_clock::now();
    while (posted_ < std::min(options_.window, options_.messages)) post_write();
    while ((received_ < options_.messages || sent_ < options_.messages) && error_.empty()) {
      poll();
      if (Seconds(std::chrono::steady_clock::now() - start).count() > 60) error_ = "not complete after 60 s";
    }
    const double seconds = Seconds(std::chrono::steady_clock::now() - start).count();
    std::printf("worker %d: %zu of %zu messages in %.2f s: %zu sums, %zu not summed, %zu neither%s%s\n", options_.rank,
                received_, options_.messages, seconds, sums_, raw_, received_ - sums_ - raw_,
                error_.empty() ? "" : "; ", error_.c_str());
    exchange(fd, mine);  // neither leaves before the other has its last acknowledgement
  }

 private:
  using QueuePair = verbs::Handle<ibv_qp, ibv_destroy_qp>;

  QueuePair create() {
    ibv_qp_init_attr attributes{};
    attributes.send_cq = attributes.recv_cq = completions_.get();
    attributes.cap = {.max_send_wr = static_cast<std::uint32_t>(options_.window),
                      .max_recv_wr = static_cast<std::uint32_t>(options_.window),
                      .max_send_sge = 1,
                      .max_recv_sge = 1,
                      .max_inline_data = 0};
    attributes.qp_type = IBV_QPT_RC;
    QueuePair pair(ibv_create_qp(device_.domain.get(), &attributes));
    if (!pair) fail("ibv_create_qp");
    return pair;
  }

  void connect(ibv_qp* pair, std::uint32_t to) {
    ibv_qp_attr a{};
    a.qp_state = IBV_QPS_INIT;
    a.port_num = device_.port;
    a.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    modify(pair, a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    a.qp_state = IBV_QPS_RTR;
    a.path_mtu = IBV_MTU_1024;
    a.dest_qp_num = to;
    a.rq_psn = kFirstPsn;
    a.ah_attr.is_global = 1;
    a.ah_attr.port_num = device_.port;
    a.ah_attr.grh.sgid_index = device_.gid_index;
    a.ah_attr.grh.hop_limit = 64;
    a.ah_attr.grh.dgid.raw[10] = a.ah_attr.grh.dgid.raw[11] = 0xff;
    inet_pton(AF_INET, kAddresses.at(static_cast<std::size_t>(1 - options_.rank)), &a.ah_attr.grh.dgid.raw[12]);
    modify(pair, a,
           IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
               IBV_QP_MIN_RNR_TIMER);
    a.qp_state = IBV_QPS_RTS;
    a.sq_psn = kFirstPsn;
    a.timeout = options_.timeout;
    a.retry_cnt = options_.retries;
    a.rnr_retry = 7;
    modify(
        pair, a,
        IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
  }

  static void modify(ibv_qp* pair, ibv_qp_attr& attributes, int mask) {
    succeed(ibv_modify_qp(pair, &attributes, mask), "ibv_modify_qp");
  }

  void post_receive() {
    ibv_recv_wr request{}, *bad = nullptr;
    request.wr_id = kReceive;
    succeed(ibv_post_recv(in_.get(), &request, &bad), "ibv_post_recv");
  }

  // Where a message of the other worker lies. Message m + WINDOW may come before this worker has looked at message m,
  // because the other worker knows only that it has arrived. Message m + 2 WINDOW cannot.
  std::size_t place_of(std::size_t message) const { return message % (2 * options_.window) * options_.bytes; }

  void post_write() {
    const std::size_t place = posted_ % options_.window * options_.bytes;
    for (std::size_t i = 0; i < options_.bytes / 4; ++i) {
      const std::uint32_t word = word_of(options_.rank, posted_, i);
      std::memcpy(&send_[place + 4 * i], &word, 4);
    }
    ibv_sge part{.addr = reinterpret_cast<std::uint64_t>(&send_[place]),
                 .length = static_cast<std::uint32_t>(options_.bytes),
                 .lkey = send_region_->lkey};
    ibv_send_wr request{}, *bad = nullptr;
    request.wr_id = kSend;
    request.sg_list = &part;
    request.num_sge = 1;
    request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    request.send_flags = IBV_SEND_SIGNALED;
    request.imm_data = htonl(static_cast<std::uint32_t>(posted_));
    request.wr.rdma = {.remote_addr = other_.memory + place_of(posted_), .rkey = other_.rkey};
    succeed(ibv_post_send(out_.get(), &request, &bad), "ibv_post_send");
    ++posted_;
  }

  void poll() {
    ibv_wc done{};
    const int found = ibv_poll_cq(completions_.get(), 1, &done);
    if (found < 0) fail("ibv_poll_cq");
    if (found == 0) return std::this_thread::yield();
    if (done.status != IBV_WC_SUCCESS) {
      error_ =
          std::string(done.wr_id == kSend ? "a write" : "a receive") + " failed: " + ibv_wc_status_str(done.status);
      return;
    }
    if (done.wr_id == kSend) {
      ++sent_;
    } else {
      check(ntohl(done.imm_data));
      ++received_;
      post_receive();
    }
    // The place of a message is free again when it has been acknowledged, and the other worker's has been read.
    while (posted_ < options_.messages && posted_ < std::min(sent_, received_) + options_.window) post_write();
  }

  void check(std::size_t message) {
    std::size_t sums = 0, raw = 0;
    const std::size_t words = options_.bytes / 4, place = place_of(message);
    for (std::size_t i = 0; i < words; ++i) {
      std::uint32_t word;
      std::memcpy(&word, &receive_[place + 4 * i], 4);
      const std::uint32_t others = word_of(1 - options_.rank, message, i);
      sums += word == others + word_of(options_.rank, message, i);
      raw += word == others;
    }
    if (message != received_) return;  // out of order counts as neither
    sums_ += sums == words;
    raw_ += raw == words;
  }

  Options options_;
  verbs::Device device_;
  std::vector<std::uint8_t> send_, receive_;
  verbs::MemoryRegion send_region_, receive_region_;
  verbs::Handle<ibv_cq, ibv_destroy_cq> completions_;
  QueuePair out_, in_;
  End other_{};
  std::size_t posted_ = 0, sent_ = 0, received_ = 0, sums_ = 0, raw_ = 0;
  std::string error_;
};

void print_counters() {
  std::printf("  Soft-RoCE:");
  for (const char* name : {"sent_pkts", "rcvd_pkts", "duplicate_request", "out_of_seq_request", "rcvd_seq_err",
                           "retry_exceeded_err", "completer_retry_err"}) {
    std::ifstream file(std::string("/sys/class/infiniband/rxe0/ports/1/hw_counters/") + name);
    std::string value;
    if (file >> value) std::printf(" %s %s", name, value.c_str());
  }
  std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 8) {
    std::fprintf(stderr, "usage: rc_ring RANK MESSAGES BYTES WINDOW TIMEOUT RETRIES LATE_S\n");
    return 2;
  }
  try {
    const auto number = [&](int i) { return std::strtoul(argv[i], nullptr, 10); };
    Worker({static_cast<int>(number(1)), number(2), number(3), number(4), static_cast<std::uint8_t>(number(5)),
            static_cast<std::uint8_t>(number(6)), std::strtod(argv[7], nullptr)})
        .run();
  } catch (const Error& error) {
    std::printf("worker %s: %s\n", argv[1], error.what());
    return 1;
  }
  print_counters();
  return 0;
}
