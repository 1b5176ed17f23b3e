#include "rdma_engine/transport/verbs/verbs_queue_pairs.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>

namespace jaxina::verbs {
namespace {

constexpr std::uint32_t kSendDepth = 4;  // one pass in flight, and copies of it
constexpr std::size_t kReceivesPerQueue = 4;
constexpr std::size_t kReceiveBatch = 32;
// The kind of a completion, stored in wr_id, because the opcode is not valid after an error.
constexpr std::uint64_t kReceive = 0, kSend = 1;

}  // namespace

VerbsQueuePairs::VerbsQueuePairs(const VerbsOptions& options, std::size_t queues, std::size_t send_bytes,
                                 std::size_t receive_bytes)
    : device_(open_device(options.device, options.address)),
      send_(send_bytes),
      receive_(receive_bytes),
      send_region_(register_host(device_, send_.bytes())),
      receive_region_(register_host(device_, receive_.bytes())),
      completions_(device_, queues * (kReceivesPerQueue + kSendDepth)),
      unfinished_(queues) {
  local_.address = device_.address;
  local_.mtu =
      static_cast<std::uint32_t>(std::min(bytes_of(device_.mtu), options.mtu > 0 ? options.mtu : std::size_t{4096}));
  local_.psn = options.first_psn & roce::kMask24;
  local_.rkey = receive_region_->rkey;
  local_.memory = reinterpret_cast<std::uint64_t>(receive_.bytes().data());
  create_queues(queues);
}

void VerbsQueuePairs::create_queues(std::size_t queues) {
  const std::size_t receives = queues * kReceivesPerQueue;
  ibv_srq_init_attr receive_queue{};
  receive_queue.attr.max_wr = static_cast<std::uint32_t>(receives);
  receive_queue.attr.max_sge = 1;
  receives_.reset(checked(ibv_create_srq(device_.domain.get(), &receive_queue), "ibv_create_srq"));
  for (std::size_t queue = 0; queue < queues; ++queue) {
    ibv_qp_init_attr attributes{};
    attributes.send_cq = completions_.queue();
    attributes.recv_cq = completions_.queue();
    attributes.srq = receives_.get();
    attributes.cap.max_send_wr = kSendDepth;
    attributes.cap.max_send_sge = 2;
    attributes.qp_type = IBV_QPT_UC;
    queues_.emplace_back(checked(ibv_create_qp(device_.domain.get(), &attributes), "ibv_create_qp"));
    ibv_qp* qp = queues_.back().get();
    if (to_init(device_, qp) != 0)
      throw Error(ErrorCode::kSystem, "a queue pair of " + device_.name + " cannot be initialised");
    local_.qpns.push_back(qp->qp_num);
    queue_of_[qp->qp_num] = queue;
  }
  missing_receives_ = receives;
  post_receives(receives);
}

int VerbsQueuePairs::to_receive(std::size_t queue) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = mtu_of(std::min(local_.mtu, remote_.mtu));
  attributes.dest_qp_num = remote_.qpns[queue];
  attributes.rq_psn = remote_.psn;
  attributes.ah_attr = route_to(device_, remote_.address);
  return ibv_modify_qp(queues_[queue].get(), &attributes,
                       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN);
}

int VerbsQueuePairs::to_send(std::size_t queue, std::uint32_t psn) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.sq_psn = psn;
  return ibv_modify_qp(queues_[queue].get(), &attributes, IBV_QP_STATE | IBV_QP_SQ_PSN);
}

void VerbsQueuePairs::connect(const roce::ConnectionEnd& remote) {
  if (remote.qpns.size() != queues_.size() || remote.udp_port != roce::kUdpPort) {
    throw Error(ErrorCode::kInvalidArgument, "the switch must offer one queue pair for each of ours, on UDP port 4791");
  }
  remote_ = remote;
  for (std::size_t queue = 0; queue < queues_.size(); ++queue) {
    const int error = to_receive(queue);
    if (const int code = error != 0 ? error : to_send(queue, local_.psn); code != 0) {
      throw Error(ErrorCode::kSwitchUnreachable, "a queue pair of " + device_.name + " cannot be connected to " +
                                                     remote.address + ": " + std::strerror(code));
    }
  }
}

Status VerbsQueuePairs::reset(std::size_t queue) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RESET;
  int error = ibv_modify_qp(queues_[queue].get(), &attributes, IBV_QP_STATE);
  if (error == 0) error = to_init(device_, queues_[queue].get());
  if (error == 0) error = to_receive(queue);
  // Do not begin with the old sequence numbers: packets still on the way would seem to follow those of the next
  // message.
  if (error == 0) error = to_send(queue, std::random_device()() & roce::kMask24);
  unfinished_[queue] = 0;
  if (error == 0) return {};
  return {ErrorCode::kSystem, "a queue pair of " + device_.name + " cannot be reset: " + std::strerror(error)};
}

void VerbsQueuePairs::post_receives(std::size_t count) {
  // A write with immediate consumes a receive request but writes nothing to its memory.
  ibv_recv_wr requests[kReceiveBatch];
  while (count > 0) {
    const std::size_t batch = std::min(count, kReceiveBatch);
    for (std::size_t i = 0; i < batch; ++i) {
      requests[i] = {};
      requests[i].wr_id = kReceive;
      requests[i].next = i + 1 < batch ? &requests[i + 1] : nullptr;
    }
    ibv_recv_wr* bad = nullptr;
    if (const int error = ibv_post_srq_recv(receives_.get(), requests, &bad); error != 0) {
      failure_ = {ErrorCode::kSystem, std::string("posting receives failed: ") + std::strerror(error)};
      return;
    }
    count -= batch;
    missing_receives_ -= batch;
  }
}

bool VerbsQueuePairs::adopt(const std::function<ExportedMemory()>& allocate) try {
  ExportedMemory memory = allocate();
  adopted_region_ = register_exported(device_, memory);
  adopted_ = std::move(memory);
  return true;
} catch (const Error&) {
  return false;
}

void VerbsQueuePairs::post_write(std::size_t queue, std::span<const std::uint8_t> head,
                                 std::span<const std::uint8_t> tail, std::uint64_t remote_address,
                                 std::uint32_t immediate) {
  if (unfinished_[queue] == kSendDepth) return;  // like a loss: these copies are still on the way
  const std::size_t message = head.size() + tail.size();
  const auto part = [](std::span<const std::uint8_t> bytes, const MemoryRegion& region) {
    return ibv_sge{reinterpret_cast<std::uint64_t>(bytes.data()), static_cast<std::uint32_t>(bytes.size()),
                   region->lkey};
  };
  const auto* const adopted = reinterpret_cast<const std::uint8_t*>(adopted_.memory.get());
  const bool is_adopted = adopted_region_ && head.data() >= adopted && head.data() < adopted + adopted_.bytes;
  ibv_sge parts[2] = {part(head, is_adopted ? adopted_region_ : send_region_), part(tail, send_region_)};
  ibv_send_wr request{};
  request.wr_id = kSend;
  request.sg_list = parts;
  request.num_sge = tail.empty() ? 1 : 2;
  request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  request.send_flags = IBV_SEND_SIGNALED;
  request.imm_data = htonl(immediate);
  request.wr.rdma.remote_addr = remote_address;
  request.wr.rdma.rkey = remote_.rkey;
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(queues_[queue].get(), &request, &bad);
  if (error == ENOMEM) return;  // full after all: Soft-RoCE keeps writes that were queued before a reset
  if (error != 0) {
    failure_ = {ErrorCode::kSystem, std::string("posting a write failed: ") + std::strerror(error)};
    return;
  }
  ++unfinished_[queue];
  const std::size_t mtu = std::min(local_.mtu, remote_.mtu);
  counters_[Counter::kPacketsSent] += roce::packets_of(message, mtu);
  counters_[Counter::kBytesSent] += roce::wire_bytes_of(message, mtu);
}

Status VerbsQueuePairs::poll(std::vector<Arrival>& arrivals) {
  ibv_wc done[64];
  int count;
  while ((count = ibv_poll_cq(completions_.queue(), 64, done)) > 0) {
    for (int i = 0; i < count; ++i) {
      const auto found = queue_of_.find(done[i].qp_num);
      if (found == queue_of_.end()) continue;
      const std::size_t queue = found->second;
      if (done[i].wr_id == kReceive) {
        ++missing_receives_;
        if (done[i].status != IBV_WC_SUCCESS) {
          ++counters_[Counter::kPacketsRejected];  // Soft-RoCE consumes a receive for a write that it refused
          continue;
        }
        arrivals.push_back({queue, ntohl(done[i].imm_data), done[i].byte_len});
        const std::size_t mtu = std::min(local_.mtu, remote_.mtu);
        counters_[Counter::kPacketsReceived] += roce::packets_of(done[i].byte_len, mtu);
        counters_[Counter::kBytesReceived] += roce::wire_bytes_of(done[i].byte_len, mtu);
      } else if (done[i].status == IBV_WC_SUCCESS || done[i].status == IBV_WC_WR_FLUSH_ERR) {
        if (unfinished_[queue] > 0) --unfinished_[queue];  // writes that a reset flushed are not counted any more
      } else {
        return {ErrorCode::kSystem,
                "the RDMA device " + device_.name + " reports: " + ibv_wc_status_str(done[i].status)};
      }
    }
  }
  if (count < 0) return {ErrorCode::kSystem, "the completion queue of " + device_.name + " cannot be read"};
  if (missing_receives_ > 0) post_receives(missing_receives_);
  return failure_;
}

}  // namespace jaxina::verbs
