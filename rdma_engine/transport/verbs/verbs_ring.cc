#include "rdma_engine/transport/verbs/verbs_ring.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "rdma_engine/base/assert.h"
#include "rdma_engine/base/clock.h"

namespace jaxina::verbs {
namespace {

// A write with an immediate takes a receive request. A slot has few messages on the way, but all of them may come at
// once.
constexpr std::uint32_t kReceives = 256;
constexpr std::uint32_t kSends = 256;
// The kind of a completion, stored in wr_id, because the opcode is not valid after an error.
constexpr std::uint64_t kReceive = 0, kSend = 1;
constexpr Nanoseconds kLongestLinger = 2'000'000'000;
constexpr std::uint8_t kRetries = 7;           // the most there are
constexpr std::uint8_t kShortestTimeout = 16;  // a code for rc::ack_timeout(): 0.27 s

// The shortest timeout with which a connection outlives such a wait: it sends kRetries + 1 times.
std::uint8_t timeout_for(Nanoseconds hold, bool retries_forever) {
  std::uint8_t code = kShortestTimeout;
  while (!retries_forever && code < rc::kMaxTimeoutCode && (kRetries + 1) * rc::ack_timeout(code) <= hold) ++code;
  return code;
}

}  // namespace

VerbsRing::VerbsRing(const RingOptions& options, const JobShape& shape)
    : device_(open_device(options.device, options.address)),
      layout_(shape),
      send_(layout_.send_bytes()),
      receive_(layout_.receive_bytes()),
      send_region_(register_host(device_, send_.bytes())),
      receive_region_(register_host(device_, receive_.bytes())),
      completions_(device_, kReceives + kSends),
      sender_(create()),
      receiver_(create()),
      timeout_(timeout_for(options.longest_hold, device_.retries_forever)) {
  local_.address = device_.address;
  local_.mtu =
      static_cast<std::uint32_t>(std::min(bytes_of(device_.mtu), options.mtu > 0 ? options.mtu : std::size_t{4096}));
  local_.qpns = {sender_->qp_num, receiver_->qp_num};
  local_.psn = options.first_psn & roce::kMask24;
  local_.rkey = receive_region_->rkey;
  local_.memory = reinterpret_cast<std::uint64_t>(receive_.bytes().data());
  post_receives(kReceives);
}

VerbsRing::QueuePair VerbsRing::create() {
  ibv_qp_init_attr attributes{};
  attributes.send_cq = completions_.queue();
  attributes.recv_cq = completions_.queue();
  attributes.cap.max_send_wr = kSends;
  attributes.cap.max_recv_wr = kReceives;
  attributes.cap.max_send_sge = 1;
  attributes.qp_type = IBV_QPT_RC;
  QueuePair made(checked(ibv_create_qp(device_.domain.get(), &attributes), "ibv_create_qp"));
  if (to_init(device_, made.get()) != 0) {
    throw Error(ErrorCode::kSystem, "a queue pair of " + device_.name + " cannot be initialised");
  }
  return made;
}

void VerbsRing::connect(const roce::RingNeighbours& neighbours) {
  const auto& [next, previous] = neighbours;
  if (next.qpns.size() != 2 || previous.qpns.size() != 2 || next.mtu != previous.mtu ||
      next.udp_port != roce::kUdpPort || previous.udp_port != roce::kUdpPort) {
    throw Error(ErrorCode::kInvalidArgument,
                "the workers of a ring with an RDMA device have two queue pairs each, with the same MTU, and use UDP "
                "port 4791");
  }
  neighbours_ = neighbours;
  connect_pair(sender_.get(), next, next.qpns[1], 0);
  connect_pair(receiver_.get(), previous, previous.qpns[0], previous.psn);
}

// Both are made ready to send. The receiver sends acknowledgements only, which need no more than RTR.
void VerbsRing::connect_pair(ibv_qp* pair, const roce::ConnectionEnd& remote, std::uint32_t qpn, std::uint32_t psn) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = mtu_of(remote.mtu);
  attributes.dest_qp_num = qpn;
  attributes.rq_psn = psn;
  attributes.max_dest_rd_atomic = 1;
  attributes.min_rnr_timer = 12;
  attributes.ah_attr = route_to(device_, remote.address);
  int error = ibv_modify_qp(pair, &attributes,
                            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  attributes = {};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.sq_psn = local_.psn;
  attributes.timeout = timeout_;
  attributes.retry_cnt = kRetries;
  attributes.rnr_retry = 7;  // no limit
  attributes.max_rd_atomic = 1;
  if (error == 0) {
    error = ibv_modify_qp(
        pair, &attributes,
        IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
  }
  if (error == 0) return;
  throw Error(ErrorCode::kSwitchUnreachable, "a queue pair of " + device_.name + " cannot be connected to " +
                                                 remote.address + ": " + std::strerror(error));
}

void VerbsRing::post_receives(std::uint32_t count) {
  // A write with immediate consumes a receive request but writes nothing to its memory.
  for (; count > 0; --count) {
    ibv_recv_wr request{};
    request.wr_id = kReceive;
    ibv_recv_wr* bad = nullptr;
    if (const int error = ibv_post_recv(receiver_.get(), &request, &bad); error != 0) {
      failure_ = {ErrorCode::kSystem, std::string("posting receives failed: ") + std::strerror(error)};
      return;
    }
  }
}

void VerbsRing::post_write(std::size_t, std::span<const std::uint8_t> head, std::span<const std::uint8_t> tail,
                           std::uint64_t remote_address, std::uint32_t immediate) {
  JAXINA_ASSERT(tail.empty());  // there is no memory of a device
  post(layout_.place_of(remote_address, head.size()), head, immediate);
}

void VerbsRing::post(const rc::RingPlace& place, std::span<const std::uint8_t> bytes, std::uint32_t fingerprint) {
  posted_.push_back(
      {bytes, neighbours_.next.memory + layout_.offset_of(place), layout_.immediate_of(place, fingerprint)});
}

std::span<std::uint8_t> VerbsRing::at(const rc::RingPlace& place, std::size_t bytes) {
  return receive_.bytes().subspan(layout_.offset_of(place), bytes);
}

bool VerbsRing::post_now(const Posted& posted) {
  if (unfinished_ == kSends) return false;
  const std::uint8_t* memory = receive_.bytes().data();
  const bool is_forwarded = posted.bytes.data() >= memory && posted.bytes.data() < memory + receive_.bytes().size();
  ibv_sge part{reinterpret_cast<std::uint64_t>(posted.bytes.data()), static_cast<std::uint32_t>(posted.bytes.size()),
               (is_forwarded ? receive_region_ : send_region_)->lkey};
  ibv_send_wr request{};
  request.wr_id = kSend;
  request.sg_list = &part;
  request.num_sge = 1;
  request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  request.send_flags = IBV_SEND_SIGNALED;
  request.imm_data = htonl(posted.immediate);
  request.wr.rdma.remote_addr = posted.address;
  request.wr.rdma.rkey = neighbours_.next.rkey;
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(sender_.get(), &request, &bad);
  if (error == ENOMEM) return false;
  if (error != 0) failure_ = {ErrorCode::kSystem, std::string("posting a write failed: ") + std::strerror(error)};
  ++unfinished_;
  counters_[Counter::kPacketsSent] += roce::packets_of(posted.bytes.size(), neighbours_.next.mtu);
  counters_[Counter::kBytesSent] += roce::wire_bytes_of(posted.bytes.size(), neighbours_.next.mtu);
  return true;
}

Status VerbsRing::flush() {
  while (!posted_.empty() && failure_.ok() && post_now(posted_.front())) posted_.pop_front();
  return failure_;
}

Status VerbsRing::poll(std::vector<Arrival>& arrivals) {
  ibv_wc done[64];
  int count;
  while ((count = ibv_poll_cq(completions_.queue(), 64, done)) > 0) {
    std::uint32_t received = 0;
    for (int i = 0; i < count; ++i) {
      const bool is_right = done[i].status == IBV_WC_SUCCESS;
      if (!is_right && ended_.ok()) {
        ended_ = {ErrorCode::kWorkerLost, std::string("a connection to a neighbour in the ring has ended: ") +
                                              ibv_wc_status_str(done[i].status) +
                                              "; see the other workers' output, and check the network"};
      }
      if (done[i].wr_id == kSend) {
        --unfinished_;
      } else if (is_right) {
        ++received;
        arrivals.push_back(layout_.arrival_of(ntohl(done[i].imm_data), done[i].byte_len));
        counters_[Counter::kPacketsReceived] += roce::packets_of(done[i].byte_len, neighbours_.previous.mtu);
        counters_[Counter::kBytesReceived] += roce::wire_bytes_of(done[i].byte_len, neighbours_.previous.mtu);
      }
    }
    post_receives(received);
  }
  if (count < 0) failure_ = {ErrorCode::kSystem, "the completion queue of " + device_.name + " cannot be read"};
  return failure_.ok() ? ended_ : failure_;
}

Status VerbsRing::reset(std::size_t) {
  return {ErrorCode::kSystem, "a reliable queue pair cannot be reset while its connection lasts"};
}

void VerbsRing::linger() {
  const Nanoseconds deadline = now() + kLongestLinger;
  std::vector<Arrival> none;
  while ((unfinished_ > 0 || !posted_.empty()) && now() < deadline) {
    if (!flush().ok() || !poll(none).ok()) return;
    wait(rc::ack_timeout(timeout_) / 4);
  }
  // An acknowledgement may be lost, and then the previous worker's device sends again. This one answers as long as it
  // is there.
  const Nanoseconds end = std::min(deadline, now() + 2 * rc::ack_timeout(timeout_));
  for (Nanoseconds time = now(); time < end; time = now()) wait(end - time);
}

}  // namespace jaxina::verbs
