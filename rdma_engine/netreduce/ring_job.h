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
// In racks (ring_racks.h) a leaf adds its rack's workers, and the spine adds the leaves:
//   * The rack's sum leaves the leaf as payload of the last worker's packet, whose connection leads to another rack.
//   * The spine sends the total on in that packet. The next rack's leaf takes it, and all packets that it holds leave
//     with it: those of its own workers, and that one.
//   * Between switches, messages go as soon as they can, also before earlier ones of their connection. Otherwise they
//     wait for each other, in a circle if workers post in different orders. The packets of a message keep their order.
//     So a gap in a message shows a loss, and an empty write makes the receiver name what it misses. If a message's
//     last packet is lost, it comes again when its sender's timer expires.
//
// A job ends here if workers contradict each other. From then on its packets pass with each worker's own data, and say
// so (roce::RingKind::kContradicted). A leaf also ends it if no totals come any more, and then its packets do not.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
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
  // The bytes that such a job takes. Of the ends of its connections most are those of packets that are held.
  static std::size_t bytes_for(const RingSpec& spec);

  // Whether the frame is the first one of connection `member`, numbered as below, if its packet has the first number: a
  // message of the job, in the receiver's memory. A ring is probed before it sums, so nothing comes before this packet.
  bool begins(std::uint32_t member, const roce::RoceFrame& frame) const;

  // Processes an intact frame of connection `member` of the spec; the one from above has the number behind the last
  // member. `egress` is where it would leave. Not if has_ended().
  void on_packet(std::uint32_t member, const roce::RoceFrame& frame, std::uint16_t egress, FrameOutput& output);

  bool has_ended() const { return ended_; }
  // Passes on an intact frame of a job that has ended.
  void pass_on(const roce::RoceFrame& frame, std::uint16_t egress, FrameOutput& output);
  const RingSpec& spec() const { return spec_; }
  // kUpdates counts workers' messages, kResults sums of all workers' messages, all others packets.
  Counters& counters() { return counters_; }
  const Counters& counters() const { return counters_; }

 private:
  struct Connection {
    Connection(const RingMember& of, std::size_t slots, bool comes, bool goes)
        : member(of),
          comes_from_switch(comes),
          goes_to_switch(goes),
          tracker(of.first_psn),
          messages(slots),
          next_epoch(slots) {}
    const RingMember& member;
    bool comes_from_switch, goes_to_switch;  // of the same job
    SequenceTracker tracker;
    MessageRing messages;
    HeldPackets held;
    std::vector<std::uint32_t> next_epoch;  // per slot: how many messages it has sent
    std::uint64_t next_message = 0;         // the number of the packet that begins it, if packets come in their order
  };
  void take(Connection& connection, std::uint32_t member, std::uint64_t number, const roce::RoceFrame& frame,
            std::uint16_t egress, FrameOutput& output);
  void take_again(Connection& connection, std::uint64_t number, const roce::RoceFrame& frame, std::uint16_t egress,
                  FrameOutput& output);
  void on_held(Connection& connection, std::uint64_t distance, const roce::RoceFrame& frame, std::uint16_t egress,
               FrameOutput& output);
  void on_empty(const Connection& connection, const SequenceTracker::Place& place, const roce::RoceFrame& frame,
                std::uint16_t egress, FrameOutput& output);
  const RingMessage* message_of(Connection& connection, std::uint64_t number, const roce::RoceFrame& frame);
  std::optional<RingMessage> message_at(const Connection& connection, std::uint64_t number,
                                        const roce::Headers& headers) const;
  bool is_part(const RingMessage& message, std::uint64_t number, const roce::Packet& packet) const;
  void release_all(FrameOutput& output);
  void release(Connection& connection, FrameOutput& output);
  void send_sum(const BlockSums& sums, std::span<const std::uint8_t> headers, const BlockName& block,
                std::uint16_t egress, FrameOutput& output);
  void send_empty(const RingMember& member, std::uint32_t psn, const roce::RoceFrame& like, std::uint16_t egress,
                  FrameOutput& output);
  void end(Counter reason, roce::RingKind kind);

  bool is(Position position) const { return spec_.position == position; }
  // What a connection's packets wait for: a leaf's own sum, or the total.
  const BlockSums& awaited(const Connection& connection) const {
    return connection.goes_to_switch || !totals_ ? sums_ : *totals_;
  }

  RingSpec spec_;
  roce::MessageLayout layout_;
  BlockSums sums_;
  std::optional<BlockSums> totals_;                       // of a leaf
  std::vector<std::unique_ptr<Connection>> connections_;  // of the members, and the one from above
  std::vector<std::uint8_t> frame_;                       // that is being made
  Counters counters_;
  bool ended_ = false;
  roce::RingKind ended_as_ = roce::RingKind::kContradicted;
};

}  // namespace jaxina::netreduce
