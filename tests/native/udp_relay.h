// A relay for datagrams between workers and one port of a switch. It loses, damages, duplicates and delays datagrams,
// and so also reorders them, by a seed. The faults are real: each packet goes through the kernel separately.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <random>
#include <span>
#include <thread>
#include <vector>

#include "rdma_engine/net/udp_socket.h"

namespace jaxina::testing {

struct Faults {
  double lose = 0;
  double duplicate = 0;
  double delay = 0;  // by up to max_delay
  std::chrono::microseconds max_delay{3000};
  double flip = 0;  // one bit
};

class UdpRelay {
 public:
  // Called on the relay's thread with each datagram of a worker.
  using Eavesdropper = std::function<void(std::span<const std::uint8_t> packet, const Address& worker)>;

  UdpRelay(std::uint16_t switch_port, Faults faults, std::uint64_t seed, Eavesdropper eavesdropper = {});
  ~UdpRelay();

  // The port to which workers send, instead of the switch's.
  std::uint16_t port() const;

  struct Counts {
    std::uint64_t packets = 0, lost = 0, duplicated = 0, delayed = 0, flipped = 0;
  };
  // May be called after stop().
  const Counts& counts() const { return counts_; }
  void stop();

 private:
  using Clock = std::chrono::steady_clock;
  struct Packet {
    std::vector<std::uint8_t> bytes;
    net::UdpSocket* out;
    Address to;
  };
  struct Held {
    Clock::time_point due;
    std::uint64_t order;  // of arrival; packets with equal times keep this order
    std::shared_ptr<Packet> packet;
    bool operator>(const Held& other) const { return std::tie(due, order) > std::tie(other.due, other.order); }
  };

  void run();
  bool read_from(net::UdpSocket& socket, net::UdpSocket* fixed_out, const Address* fixed_to);
  void pass_on(Packet packet);
  void release(Clock::time_point now);
  double chance() { return std::uniform_real_distribution<double>()(random_); }

  Address switch_;
  Faults faults_;
  std::mt19937_64 random_;
  Eavesdropper eavesdropper_;
  net::UdpSocket front_;  // the workers' side
  struct Client {
    Address address;
    std::unique_ptr<net::UdpSocket> back;  // the switch sees each worker by its own port
  };
  std::vector<Client> clients_;
  std::priority_queue<Held, std::vector<Held>, std::greater<>> held_;
  std::uint64_t arrivals_ = 0;
  Counts counts_;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace jaxina::testing
