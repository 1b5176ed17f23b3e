#include "rdma_engine/transport/rc/ring_queue_pairs.h"

#include <algorithm>
#include <string>
#include <utility>

#include "rdma_engine/base/assert.h"

namespace jaxina::rc {
namespace {

// A write takes a receive request at each of its messages. There are so many that they never run out between two
// packets.
constexpr std::uint32_t kReceives = 1024;

}  // namespace

RingQueuePairs::RingQueuePairs(roce::ConnectionEnd local, const JobShape& shape, const RequesterConfig& options)
    : InMemory(std::move(local), RingMemory(shape).send_bytes(), RingMemory(shape).receive_bytes()),
      layout_(shape),
      options_(options) {
  JAXINA_ASSERT(local_.qpns.size() == 2);
}

void RingQueuePairs::connect(const roce::RingNeighbours& neighbours) {
  if (neighbours.next.qpns.size() != 2 || neighbours.previous.qpns.size() != 2 ||
      neighbours.next.mtu != neighbours.previous.mtu) {
    throw Error(ErrorCode::kInvalidArgument, "the workers of a ring have two queue pairs each, with the same MTU");
  }
  neighbours_ = neighbours;
  const auto& [next, previous] = neighbours_;
  RequesterConfig config = options_;
  config.remote_qpn = next.qpns[1];
  config.first_psn = local_.psn;
  config.mtu = next.mtu;
  // Every message that is not completed has a packet in the window, or is one of its slot's two that were not sent: a
  // result, and the partial sum of the slot's next pass.
  config.queue = kMaxUnacknowledged + 2 * layout_.slots();
  requester_.emplace(config);
  responder_.emplace(ResponderConfig{.remote_qpn = previous.qpns[0], .first_psn = previous.psn, .mtu = previous.mtu});
  responder_->post_receives(kReceives);
}

void RingQueuePairs::post_write(std::size_t, std::span<const std::uint8_t> head, std::span<const std::uint8_t> tail,
                                std::uint64_t remote_address, std::uint32_t immediate) {
  JAXINA_ASSERT(tail.empty());  // there is no memory of a device
  post(layout_.place_of(remote_address, head.size()), head, immediate);
}

void RingQueuePairs::post(const RingPlace& place, std::span<const std::uint8_t> bytes, std::uint32_t fingerprint) {
  const roce::ConnectionEnd& next = neighbours_.next;
  posted_.push_back({.id = roce::address_of({place.epoch, static_cast<std::uint16_t>(place.slot)}),
                     .write = {.peer = {},
                               .qpn = next.qpns[1],
                               .rkey = next.rkey,
                               .address = next.memory + layout_.offset_of(place),
                               .immediate = layout_.immediate_of(place, fingerprint),
                               .head = bytes,
                               .tail = {}}});
}

std::span<std::uint8_t> RingQueuePairs::at(const RingPlace& place, std::size_t bytes) {
  return writable_memory().subspan(layout_.offset_of(place), bytes);
}

void RingQueuePairs::post_all() {
  for (const Request& request : posted_) {
    const bool has_room = requester_->post(request);
    JAXINA_ASSERT(has_room);
  }
  posted_.clear();
  take_completions();
}

Status RingQueuePairs::reset(std::size_t) {
  return {ErrorCode::kSystem, "a reliable queue pair cannot be reset while its connection lasts"};
}

std::optional<roce::MessageQueues::Arrival> RingQueuePairs::on_packet(const roce::Packet& packet, Nanoseconds now) {
  const roce::Headers& headers = packet.headers;
  if (headers.qpn == local_.qpns[0] && roce::is_acknowledge(headers.opcode)) {
    requester_->on_answer(headers, now);
    take_completions();
    return std::nullopt;
  }
  if (headers.qpn != local_.qpns[1] || roce::is_acknowledge(headers.opcode)) return std::nullopt;
  if (!responder_->on_request(packet, [this](const roce::Headers& first) { return resolve(first); })) {
    return std::nullopt;
  }
  if (!responder_->has_immediate()) return std::nullopt;
  responder_->post_receives(1);
  return layout_.arrival_of(responder_->message().immediate, responder_->message().length);
}

void RingQueuePairs::take_completions() {
  while (const std::optional<Completion> completion = requester_->pop_completion()) {
    if (completion->status == CompletionStatus::kSuccess || !ended_.ok()) continue;
    ended_ = {ErrorCode::kWorkerLost,
              "the connection to the next worker of the ring has ended: " + std::string(to_string(completion->status)) +
                  "; see that worker's output, and check the network"};
  }
}

}  // namespace jaxina::rc
