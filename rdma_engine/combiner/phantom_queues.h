// PhantomQueues: tell when a queue forms at the end of a switch's ports, from the packets that the switch sends there.
// A software switch cannot look into the queues of the network, so it computes one for each port. The computed queue
// drains a little slower than the port sends, so it is long before the real one is (Alizadeh et al., Less is more, NSDI
// 2012). It has no clock and allocates nothing after construction.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "rdma_engine/base/address.h"
#include "rdma_engine/base/time.h"

namespace jaxina {

struct PhantomQueueOptions {
  double bytes_per_second = 0;        // of each port; 0: not known, so no queue is ever over the threshold
  std::size_t bytes_per_packet = 0;   // that a port sends in addition to a packet's own
  double drain = 0.95;                // of the port's rate
  Nanoseconds threshold = 1'000'000;  // of the time that a packet would wait
};

// Of the address that a packet goes to: the address of its port, the same for all processes of a host.
using PortOf = Address (*)(const Address&);

class PhantomQueues {
 public:
  PhantomQueues(const PhantomQueueOptions& options, PortOf port_of)
      : threshold_(options.threshold),
        per_byte_(options.bytes_per_second > 0 ? 1e9 / (options.bytes_per_second * options.drain) : 0),
        per_packet_(per_byte_ * static_cast<double>(options.bytes_per_packet)),
        port_of_(port_of),
        queues_(known() ? kQueues : 0) {}

  // Whether a packet that is sent there now must be marked.
  bool is_over(const Address& to, Nanoseconds now) const {
    if (!known()) return false;
    const Address port = port_of_(to);
    const std::size_t first = place_of(port);
    for (std::size_t i = first; i < first + kPlaces; ++i) {
      const Queue& queue = queues_[i % kQueues];
      if (same_peer(queue.port, port)) return queue.empty_at - now > threshold_;
    }
    return false;
  }

  void on_sent(const Address& to, std::size_t bytes, Nanoseconds now) {
    if (!known()) return;
    const Address port = port_of_(to);
    const std::size_t first = place_of(port);
    Queue* free = nullptr;
    for (std::size_t i = first; i < first + kPlaces; ++i) {
      Queue& queue = queues_[i % kQueues];
      if (same_peer(queue.port, port)) return add(queue, bytes, now);
      if (free == nullptr && queue.empty_at <= now) free = &queue;
    }
    // A queue that is empty says no more than none. So its place is free, and addresses that somebody makes up cost no
    // memory.
    if (free == nullptr) return;
    *free = {.port = port};
    add(*free, bytes, now);
  }

 private:
  struct Queue {
    Address port;
    Nanoseconds empty_at = 0;
  };
  static constexpr std::size_t kQueues = 1024;
  static constexpr std::size_t kPlaces = 8;  // where a port's queue may be

  bool known() const { return per_byte_ > 0; }
  static std::size_t place_of(const Address& port) {
    std::uint64_t hash = port.size;
    for (const std::uint8_t byte : port.bytes) hash = (hash ^ byte) * 0x100000001b3;
    return (hash ^ hash >> 32) % kQueues;
  }
  void add(Queue& queue, std::size_t bytes, Nanoseconds now) const {
    const double lasts = per_packet_ + per_byte_ * static_cast<double>(bytes);
    queue.empty_at = std::max(queue.empty_at, now) + static_cast<Nanoseconds>(lasts);
  }

  Nanoseconds threshold_;
  double per_byte_, per_packet_;  // in nanoseconds
  PortOf port_of_;
  std::vector<Queue> queues_;
};

}  // namespace jaxina
