// TcpStream: a TCP stream without end to one node, beside the jobs. It takes its share of the last link's queue.
//
// Its window is that of CUBIC where round trips are short, as on the links here: it grows by 0.53 packets per round
// trip, and is multiplied by 0.7 when a packet is lost (RFC 9438, sections 4.3 and 4.6). It begins with slow start. A
// loss is known one round trip later, as from duplicate acknowledgements.
#pragma once

#include <cstdint>
#include <deque>

#include "rdma_engine/sim/network.h"

namespace jaxina::sim {

class TcpStream {
 public:
  TcpStream(const TcpStreamPlan& plan, std::uint16_t to, Network& network, EventQueue& events)
      : plan_(plan), to_(to), network_(network), events_(events) {}

  // Sends what the window has room for, and plans a kTcp event for each packet.
  void send(Nanoseconds now) {
    while (static_cast<double>(in_flight_.size()) < window_) {
      const Network::Crossing crossing = network_.cross(to_, plan_.packet_bytes, now);
      in_flight_.push_back({.sent = now, .lost = crossing.lost});
      events_.push(crossing.arrival + plan_.way_back, EventKind::kTcp);
    }
  }

  // The acknowledgement of the oldest packet comes, or would have come.
  void on_acknowledgement(Nanoseconds now) {
    const Sent oldest = in_flight_.front();
    in_flight_.pop_front();
    if (!oldest.lost) {
      delivered_ += plan_.packet_bytes;
      window_ += starts_slowly_ ? 1 : 0.53 / window_;
    } else if (starts_slowly_ || oldest.sent >= decreased_) {
      window_ = window_ * 0.7 < 2 ? 2 : window_ * 0.7;
      starts_slowly_ = false;
      decreased_ = now;
    }
    send(now);
  }

  std::uint64_t delivered() const { return delivered_; }  // bytes

 private:
  struct Sent {
    Nanoseconds sent;
    bool lost;
  };

  TcpStreamPlan plan_;
  std::uint16_t to_;
  Network& network_;
  EventQueue& events_;
  std::deque<Sent> in_flight_;  // in order: a link neither repeats nor reorders this stream's packets
  double window_ = 10;          // packets (RFC 6928)
  bool starts_slowly_ = true;
  Nanoseconds decreased_ = 0;
  std::uint64_t delivered_ = 0;
};

}  // namespace jaxina::sim
