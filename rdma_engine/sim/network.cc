#include "rdma_engine/sim/network.h"

#include <algorithm>

namespace jaxina::sim {

void corrupt(Packet& packet, Random& random) {
  if (packet.origin.altered) return;  // a second corruption might restore it, and it would still count as corrupt
  packet.origin.altered = true;
  const std::size_t bits = std::size_t{packet.size} * 8;
  const auto flip = [&](std::size_t bit) { packet.bytes[bit / 8] ^= static_cast<std::uint8_t>(1u << (bit % 8)); };
  if (bits == 0) return;
  switch (random.below(4)) {
    case 0: packet.size = static_cast<std::uint16_t>(random.below(packet.size)); return;
    case 1: {
      const std::size_t first = random.below(bits);
      const std::uint64_t burst = random.next() | 1;
      for (std::size_t i = 0; i < 32 && first + i < bits; ++i) {
        if (burst >> i & 1) flip(first + i);
      }
      return;
    }
    default: {
      const std::size_t first = random.below(bits);
      flip(first);
      for (std::size_t next = random.below(bits), left = random.below(3); left > 0;
           --left, next = (next + 977) % bits) {
        if (next != first) flip(next);
      }
      return;
    }
  }
}

std::uint16_t Network::add_node(const LinkPlan& link, std::uint16_t parent) {
  links_.push_back({.plan = link, .parent = parent});
  return static_cast<std::uint16_t>(links_.size() - 1);
}

std::uint16_t Network::add_process(std::uint16_t parent) {
  links_.push_back({.plan = {}, .parent = parent, .perfect = true});
  return static_cast<std::uint16_t>(links_.size() - 1);
}

void Network::clog(std::uint16_t node, Nanoseconds until, bool drops) {
  links_[node].clogged_until = until;
  links_[node].drops = drops;
}

// The node after `at` on the way to `to`: the child that `to` is below, or the parent.
std::uint16_t Network::next_node(std::uint16_t at, std::uint16_t to) const {
  for (std::uint16_t node = to; node != kSwitch; node = links_[node].parent) {
    if (links_[node].parent == at) return node;
  }
  return links_[at].parent;
}

std::uint32_t Network::schedule(const Packet& packet, std::uint16_t at, Nanoseconds arrival) {
  std::uint32_t index;
  if (free_.empty()) {
    index = static_cast<std::uint32_t>(packets_.size());
    packets_.emplace_back();
  } else {
    index = free_.back();
    free_.pop_back();
  }
  Packet& copy = packets_[index];
  copy.origin = packet.origin;
  copy.from = packet.from;
  copy.to = packet.to;
  copy.at = at;
  copy.size = packet.size;
  std::copy_n(packet.bytes.begin(), packet.size, copy.bytes.begin());
  ++in_flight_;
  events_.push(arrival, EventKind::kArrival, index);
  return index;
}

Fate Network::send(const Packet& packet, Nanoseconds now) {
  ++counters_.sent;
  return cross_link(packet, packet.from, now);
}

void Network::forward(std::uint32_t index, Nanoseconds now) {
  const Packet packet = packets_[index];
  release(index);
  static_cast<void>(cross_link(packet, packet.at, now));
}

Fate Network::cross_link(const Packet& packet, std::uint16_t at, Nanoseconds now) {
  if (at == packet.to) {  // a node answers a packet that names itself as the sender
    schedule(packet, at, now);
    return Fate::kDelivered;
  }
  const std::uint16_t next = next_node(at, packet.to);
  const bool upward = at != kSwitch && links_[at].parent == next;
  Link& link = links_[upward ? at : next];
  if (link.perfect) {
    schedule(packet, next, now);
    return Fate::kDelivered;
  }
  Burst& burst = link.bursts[upward];
  const bool follows = merging_ && burst.takes(packet, now);
  if (!follows) burst = {.sent = now, .size = packet.size, .dice = random_.next()};
  ++burst.packets;
  ++link.counters[upward].sent;
  link.counters[upward].bytes += packet.size;
  const auto happens = [&](int which, std::uint32_t share) { return (burst.dice >> (16 * which) & 0xffff) < share; };

  const bool clogged = link.clogged_until > now;
  const Nanoseconds open = clogged && !link.drops ? link.clogged_until : now;
  const Nanoseconds start = std::max(open, link.busy_until[upward]);
  if (!follows) burst.lost = (clogged && link.drops) || start - open > link.plan.queue || happens(0, faults_.loss);
  if (burst.lost) {
    ++counters_.lost;
    ++link.counters[upward].lost;
    return Fate::kLost;
  }
  const Nanoseconds departure = start + packet.size * kMicrosecond / link.plan.bytes_per_us;
  link.busy_until[upward] = departure;
  const bool overtaken = happens(1, faults_.reordering);
  counters_.reordered += overtaken;
  if (!follows) burst.arrival = departure + link.plan.delay + (overtaken ? extra_delay() : 0);
  const std::uint32_t index = schedule(packet, next, burst.arrival);
  if (happens(2, faults_.duplication)) {
    ++counters_.duplicated;
    schedule(packet, next, burst.arrival + 1 + extra_delay());
  }
  if (!happens(3, faults_.corruption)) return Fate::kDelivered;
  ++counters_.corrupted;
  corrupt(packets_[index], random_);
  return Fate::kCorrupted;
}

Network::Crossing Network::cross(std::uint16_t node, std::uint32_t bytes, Nanoseconds now) {
  Link& link = links_[node];
  const Nanoseconds start = std::max(now, link.busy_until[0]);
  const bool lost = start - now > link.plan.queue;
  if (!lost) link.busy_until[0] = start + bytes * kMicrosecond / link.plan.bytes_per_us;
  return {.arrival = link.busy_until[0] + link.plan.delay, .lost = lost};
}

Nanoseconds Network::extra_delay() {
  return static_cast<Nanoseconds>(random_.below(static_cast<std::uint64_t>(faults_.max_extra_delay)));
}

bool Network::queue_at_switch(std::uint32_t index, Nanoseconds now) {
  const Nanoseconds start = std::max(now, ingress_busy_until_);
  if (ingress_.room > 0 && start - now >= ingress_.room * ingress_.service) {
    ++counters_.lost;
    ++counters_.overflowed;
    return false;
  }
  ingress_busy_until_ = start + ingress_.service;
  events_.push(ingress_busy_until_, EventKind::kServed, index);
  return true;
}

}  // namespace jaxina::sim
