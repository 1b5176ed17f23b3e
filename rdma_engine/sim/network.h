// Network: a tree of nodes: bandwidth, delay and queues of its links, and all faults. The root is the switch, or the
// core of several racks. Every other node has one link, to its parent.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "rdma_engine/sim/event_queue.h"
#include "rdma_engine/sim/plan.h"

namespace jaxina::sim {

inline constexpr std::uint16_t kSwitch = 0xffff;
inline constexpr std::size_t kMaxPacket = 256;

// Who really made a packet. The oracles see this; the code under test does not.
struct Origin {
  enum class Maker : std::uint8_t { kWorker, kSwitch, kHostile } maker = Maker::kWorker;
  bool altered = false;          // corrupted or modified after it was made
  std::uint16_t host = 0;        // the worker that made it
  std::uint32_t generation = 0;  // generation of the job that it was made for
  std::uint16_t slot = 0;        // the pass that it belongs to, if a worker made it
  std::uint32_t epoch = 0;
  bool repeated = false;  // a retransmission
};

struct Packet {
  Origin origin;
  std::uint16_t from = 0, to = 0;  // nodes; `from` can be forged
  std::uint16_t at = 0;            // the node that it has reached on its way
  std::uint16_t size = 0;
  alignas(8) std::array<std::uint8_t, kMaxPacket> bytes;
  std::span<const std::uint8_t> view() const { return {bytes.data(), size}; }
};

struct NetworkCounters {
  std::uint64_t sent = 0, delivered = 0, lost = 0, duplicated = 0, reordered = 0, corrupted = 0;
  std::uint64_t overflowed = 0;  // of the lost packets, those that did not fit the switch's receive buffer
};

// One direction of a link.
struct LinkCounters {
  std::uint64_t sent = 0, lost = 0;  // packets; the lost ones are among those sent
  std::uint64_t bytes = 0;           // sent

  LinkCounters& operator+=(const LinkCounters& other) {
    sent += other.sent;
    lost += other.lost;
    bytes += other.bytes;
    return *this;
  }
};

enum class Fate : std::uint8_t { kDelivered, kLost, kCorrupted };

class Network {
 public:
  Network(const Plan& plan, EventQueue& events, Random& random)
      : faults_(plan.faults),
        ingress_(plan.ingress),
        merging_(plan.features & kMerging),
        events_(events),
        random_(random) {}

  // Adds a node and returns its number: 0, 1, 2 and so on. `parent` may be added later.
  std::uint16_t add_node(const LinkPlan& link, std::uint16_t parent = kSwitch);
  // Adds a process on the host `parent`: nothing happens to packets between the two.
  std::uint16_t add_process(std::uint16_t parent);
  std::uint16_t nodes() const { return static_cast<std::uint16_t>(links_.size()); }
  void clog(std::uint16_t node, Nanoseconds until, bool drops);
  void end_faults() { faults_ = {}; }

  // Sends a packet from packet.from towards packet.to, over the first link of its way.
  Fate send(const Packet& packet, Nanoseconds now);
  // Sends a packet that has arrived at a node on its way over the next link.
  void forward(std::uint32_t index, Nanoseconds now);
  // Delivers a packet without any link or fault, as from another network.
  void inject(const Packet& packet, Nanoseconds arrival) { schedule(packet, packet.to, arrival); }

  // Sends so many bytes of other traffic from a node's parent to the node. If they are lost, `arrival` is when the end
  // of the queue arrives.
  struct Crossing {
    Nanoseconds arrival;
    bool lost;
  };
  Crossing cross(std::uint16_t node, std::uint32_t bytes, Nanoseconds now);

  // Puts a packet that has arrived at the switch into its receive buffer; a kServed event follows. Returns false if
  // there is no room, so the packet is lost.
  bool queue_at_switch(std::uint32_t index, Nanoseconds now);

  Packet& packet(std::uint32_t index) { return packets_[index]; }
  void release(std::uint32_t index) {
    free_.push_back(index);
    --in_flight_;
  }
  std::size_t in_flight() const { return in_flight_; }
  const NetworkCounters& counters() const { return counters_; }
  // Of what went from the node's parent to the node.
  const LinkCounters& towards(std::uint16_t node) const { return links_[node].counters[0]; }
  void count_delivery() { ++counters_.delivered; }

 private:
  // Packets that were sent in one burst. With kMerging, a burst travels as one.
  struct Burst {
    Nanoseconds sent = -1;
    std::uint16_t size = 0;
    std::uint32_t packets = 0;
    std::uint64_t dice = 0;
    bool lost = false;
    Nanoseconds arrival = 0;
    bool takes(const Packet& packet, Nanoseconds now) const {
      return sent == now && size == packet.size && packets < kMostInBurst;
    }
  };
  static constexpr std::uint32_t kMostInBurst = 64;  // Linux's UDP_MAX_SEGMENTS
  // A node's link to its parent.
  struct Link {
    LinkPlan plan;
    std::uint16_t parent = kSwitch;
    bool perfect = false;
    std::array<Nanoseconds, 2> busy_until = {};  // [0] towards the node, [1] towards its parent
    std::array<Burst, 2> bursts = {};            // the latest burst in each direction
    std::array<LinkCounters, 2> counters = {};
    Nanoseconds clogged_until = 0;
    bool drops = false;
  };
  std::uint16_t next_node(std::uint16_t at, std::uint16_t to) const;
  Fate cross_link(const Packet& packet, std::uint16_t at, Nanoseconds now);
  std::uint32_t schedule(const Packet& packet, std::uint16_t at, Nanoseconds arrival);
  Nanoseconds extra_delay();

  LinkFaults faults_;
  IngressPlan ingress_;
  Nanoseconds ingress_busy_until_ = 0;
  bool merging_;
  EventQueue& events_;
  Random& random_;
  std::vector<Link> links_;
  std::deque<Packet> packets_;  // a deque, so that packets do not move: a packet is read while others are sent
  std::vector<std::uint32_t> free_;
  std::size_t in_flight_ = 0;
  NetworkCounters counters_;
};

// Changes some bits or the length. The CRC-32 always detects up to three changed bits and a burst of at most 32 bits.
// It detects a changed length (of a packet that does not contain its length) almost always.
void corrupt(Packet& packet, Random& random);

}  // namespace jaxina::sim
