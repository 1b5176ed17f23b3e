// RingQueuePairs: a worker's two reliable queue pairs in a ring, in software: one sends to the next worker, the other
// receives from the previous one. A message session uses them as it uses a switch's queue pairs. A pass is written
// where the next worker waits for it. A derived class carries the packets.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "rdma_engine/messages/in_memory.h"
#include "rdma_engine/transport/rc/requester.h"
#include "rdma_engine/transport/rc/responder.h"
#include "rdma_engine/transport/rc/ring_link.h"

namespace jaxina::rc {

class RingQueuePairs : public roce::InMemory<RingLink> {
 public:
  // qpns[0] sends, qpns[1] receives; psn is the first number that qpns[0] sends.
  const roce::ConnectionEnd& local() const { return local_; }
  // Called once, before anything is sent. Throws Error(kInvalidArgument) if the ends do not fit.
  void connect(const roce::RingNeighbours& neighbours);

  // `remote_address` is the pass's name: roce::address_of(). Words of 32 bits only.
  void post_write(std::size_t queue, std::span<const std::uint8_t> head, std::span<const std::uint8_t> tail,
                  std::uint64_t remote_address, std::uint32_t immediate) final;
  void post(const RingPlace& place, std::span<const std::uint8_t> bytes, std::uint32_t fingerprint) final;
  std::span<std::uint8_t> at(const RingPlace& place, std::size_t bytes) final;
  // Never needed: reliable queue pairs repair losses themselves.
  Status reset(std::size_t queue) final;

  const Status& ended() const final { return ended_; }

 protected:
  // `options` has the sender's timeouts and retries; all else follows.
  RingQueuePairs(roce::ConnectionEnd local, const JobShape& shape, const RequesterConfig& options);

  const roce::RingNeighbours& neighbours() const { return neighbours_; }

  // Writes that were posted and wait for post_all(), which hands them to the sender.
  std::vector<Request>& posted() { return posted_; }
  void post_all();

  // Processes an intact packet for one of the two queue pairs. Returns the message that it completed, if any: see
  // RingMemory::arrival_of().
  std::optional<Arrival> on_packet(const roce::Packet& packet, Nanoseconds now);
  Requester& requester() { return *requester_; }
  const Requester& requester() const { return *requester_; }
  Responder& responder() { return *responder_; }

 private:
  void take_completions();

  RingMemory layout_;
  roce::RingNeighbours neighbours_;
  RequesterConfig options_;
  std::optional<Requester> requester_;
  std::optional<Responder> responder_;
  std::vector<Request> posted_;
  Status ended_;
};

}  // namespace jaxina::rc
