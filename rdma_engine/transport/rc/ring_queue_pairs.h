// RingQueuePairs: a worker's two reliable queue pairs in a ring, in software: one sends to the next worker, the other
// receives from the previous one. A message session uses them as it uses a switch's queue pairs. A pass is written
// where the next worker waits for it. A derived class carries the packets.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "rdma_engine/messages/message_memory.h"
#include "rdma_engine/messages/pass_message.h"
#include "rdma_engine/messages/queue_pairs.h"
#include "rdma_engine/transport/rc/requester.h"
#include "rdma_engine/transport/rc/responder.h"

namespace jaxina::rc {

class RingQueuePairs : public roce::QueuePairs {
 public:
  // The address that the receive memory pretends to have.
  static constexpr std::uint64_t kBase = std::uint64_t{1} << 32;

  // qpns[0] sends, qpns[1] receives; psn is the first number that qpns[0] sends.
  const roce::ConnectionEnd& local() const final { return local_; }
  std::span<std::uint8_t> send_memory() final { return send_.bytes(); }
  std::span<const std::uint8_t> receive_memory() const final { return receive_.bytes(); }
  // The processor assembles the packets, so a GPU's memory is of no use.
  bool adopt(const std::function<ExportedMemory()>&) final { return false; }
  // `remote_address` is the pass's name: roce::address_of(). Words of 32 bits only.
  void post_write(std::size_t queue, std::span<const std::uint8_t> head, std::span<const std::uint8_t> tail,
                  std::uint64_t remote_address, std::uint32_t immediate) final;
  // Never needed: reliable queue pairs repair losses themselves.
  Status reset(std::size_t queue) final;

  // Why the connection to the next worker has ended; ok until it does.
  const Status& ended() const { return ended_; }

 protected:
  // `options` has the sender's timeouts and retries; all else follows.
  RingQueuePairs(roce::ConnectionEnd local, const roce::MessageLayout& layout, const JobShape& shape,
                 const RequesterConfig& options);

  // `remote` is what this worker needs to know of its neighbours: qpns[0] is the next worker's receiving queue pair,
  // and rkey and memory are of the next worker's memory; qpns[1] is the previous worker's sending queue pair, and psn
  // its first number. mtu is the smallest of all.
  void connect_to(const roce::ConnectionEnd& remote);

  // Writes that were posted and wait for post_all(), which hands them to the sender.
  std::vector<Request>& posted() { return posted_; }
  void post_all();

  // Processes an intact packet for one of the two queue pairs. Returns the message that it completed, if any.
  std::optional<Arrival> on_packet(const roce::Packet& packet, Nanoseconds now);
  Requester& requester() { return *requester_; }
  const Requester& requester() const { return *requester_; }
  Responder& responder() { return *responder_; }

 private:
  std::uint8_t* resolve(const roce::Headers& headers);
  void take_completions();

  roce::ConnectionEnd local_, remote_;
  roce::MessageLayout layout_;
  RequesterConfig options_;
  std::uint32_t slots_;
  roce::MessageMemory send_, receive_;
  std::optional<Requester> requester_;
  std::optional<Responder> responder_;
  std::vector<Request> posted_;
  Status ended_;
};

}  // namespace jaxina::rc
