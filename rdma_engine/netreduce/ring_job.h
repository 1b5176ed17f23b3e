// RingJob: one job at a transparent switch. Workers form a ring of reliable connections. The packets of a block are
// held until all workers' have come, and leave with the block's sum as payload, each with its own headers and in the
// order of its connection. Acknowledgements pass the switch as they are: an acknowledgement means that the sum was
// delivered.
//
// What is lost comes again because the connection's ends see to it:
//   * A packet that was taken before is a copy: if its sum is there, the sum leaves again with the copy's headers.
//   * A packet behind a gap is not taken. In its place an empty write leaves, with a number 2^22 ahead: it makes the
//     receiver name what it misses, and writes nothing. The packet itself would be dangerous: a late copy of it, with
//     one worker's payload, might come when the receiver waits for this number.
//   * A copy whose sum is gone is one that the receiver has. An empty write with its number makes the receiver say so.
//
// A job ends here if workers contradict each other. From then on its packets pass with each worker's own data, and say
// that they are no results (roce::RingKind::kContradicted).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "rdma_engine/base/counters.h"
#include "rdma_engine/netreduce/block_sums.h"
#include "rdma_engine/netreduce/held_packets.h"
#include "rdma_engine/netreduce/message_ring.h"
#include "rdma_engine/netreduce/sequence_tracker.h"

namespace jaxina::netreduce {

class FrameOutput {
 public:
  virtual ~FrameOutput() = default;
  virtual void send(std::uint16_t egress, std::span<const std::uint8_t> frame) = 0;
};

class RingJob {
 public:
  // Throws Error(kInvalidArgument) if the spec does not hold.
  explicit RingJob(const RingSpec& spec);

  // Processes an intact frame of worker `worker`'s connection. `egress` is where it would leave. Not if has_ended().
  void on_packet(std::uint32_t worker, const roce::RoceFrame& frame, std::uint16_t egress, FrameOutput& output);

  bool has_ended() const { return ended_; }
  // Passes on an intact frame of a job that has ended.
  void pass_on(const roce::RoceFrame& frame, std::uint16_t egress, FrameOutput& output);
  const RingSpec& spec() const { return spec_; }
  // kUpdates and kResults count messages, all others packets.
  Counters& counters() { return counters_; }
  const Counters& counters() const { return counters_; }

 private:
  struct Connection {
    Connection(const RingMember& member, std::size_t slots)
        : tracker(member.first_psn), messages(slots), next_epoch(slots) {}
    SequenceTracker tracker;
    MessageRing messages;
    HeldPackets held;
    std::vector<std::uint32_t> next_epoch;  // per slot: how many messages it has sent
    std::uint64_t next_message = 0;         // the number of the packet that begins it
  };
  void take(std::uint32_t worker, std::uint64_t number, const roce::RoceFrame& frame, std::uint16_t egress,
            FrameOutput& output);
  void take_again(std::uint32_t worker, std::uint64_t number, const roce::RoceFrame& frame, std::uint16_t egress,
                  FrameOutput& output);
  bool begin_message(std::uint32_t worker, std::uint64_t number, const roce::Headers& headers);
  bool is_part(const RingMessage& message, std::uint64_t number, const roce::Packet& packet) const;
  void release(Connection& connection, FrameOutput& output);
  void send_sum(std::span<const std::uint8_t> headers, const BlockName& block, std::uint16_t egress,
                FrameOutput& output);
  void send_empty(std::uint32_t worker, std::uint32_t psn, const roce::RoceFrame& like, std::uint16_t egress,
                  FrameOutput& output);
  void end(Counter reason);

  RingSpec spec_;
  roce::MessageLayout layout_;
  BlockSums sums_;
  std::vector<std::unique_ptr<Connection>> connections_;  // per worker
  std::vector<std::uint8_t> frame_;                       // that is being made
  Counters counters_;
  bool ended_ = false;
};

}  // namespace jaxina::netreduce
