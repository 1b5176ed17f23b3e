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

RingQueuePairs::RingQueuePairs(roce::ConnectionEnd local, const roce::MessageLayout& layout, const JobShape& shape,
                               const RequesterConfig& options)
    : local_(std::move(local)),
      layout_(layout),
      options_(options),
      slots_(shape.slots()),
      send_(shape.slots() * layout.stride()),
      receive_(shape.slots() * roce::MessageLayout::kPlaces * layout.stride()) {
  JAXINA_ASSERT(local_.qpns.size() == 2);
  local_.memory = kBase;
}

void RingQueuePairs::connect_to(const roce::ConnectionEnd& remote) {
  JAXINA_ASSERT(remote.qpns.size() == 2);
  remote_ = remote;
  RequesterConfig config = options_;
  config.remote_qpn = remote.qpns[0];
  config.first_psn = local_.psn;
  config.mtu = remote.mtu;
  // Every message that is not completed has a packet in the window, or is its slot's only one that was not sent.
  config.queue = kMaxUnacknowledged + slots_;
  requester_.emplace(config);
  responder_.emplace(ResponderConfig{.remote_qpn = remote.qpns[1], .first_psn = remote.psn, .mtu = remote.mtu});
  responder_->post_receives(kReceives);
}

void RingQueuePairs::post_write(std::size_t, std::span<const std::uint8_t> head, std::span<const std::uint8_t> tail,
                                std::uint64_t remote_address, std::uint32_t immediate) {
  const std::optional<roce::PassName> name = roce::pass_at(remote_address);
  JAXINA_ASSERT(name && name->slot < slots_ && name->format == wire::Format::kInt32);
  const std::size_t words = head.size() + tail.size() - wire::padded(name->exponents);
  const std::size_t begins = layout_.exponents_in_place() - words;
  posted_.push_back({.id = remote_address,
                     .write = {.peer = {},
                               .qpn = remote_.qpns[0],
                               .rkey = remote_.rkey,
                               .address = remote_.memory + layout_.result_place(name->slot, name->epoch) + begins,
                               .immediate = immediate,
                               .head = head,
                               .tail = tail}});
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

std::optional<roce::QueuePairs::Arrival> RingQueuePairs::on_packet(const roce::Packet& packet, Nanoseconds now) {
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
  const roce::Headers& message = responder_->message();
  const std::size_t place = (message.address - kBase) / layout_.stride();
  return Arrival{place / roce::MessageLayout::kPlaces, message.immediate, message.length};
}

std::uint8_t* RingQueuePairs::resolve(const roce::Headers& headers) {
  const std::uint64_t offset = headers.address - kBase;
  const std::span<std::uint8_t> memory = receive_.bytes();
  const bool inside = headers.address >= kBase && offset < memory.size() && headers.length <= memory.size() - offset;
  return inside && headers.rkey == local_.rkey ? memory.data() + offset : nullptr;
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
