// RingEnd: a worker's end of a ring in the simulator: its message session, and a network card with reliable queue
// pairs. Packets are whole Ethernet frames.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rdma_engine/base/narrow.h"
#include "rdma_engine/sim/message_end.h"
#include "rdma_engine/sim/roce_hosts.h"
#include "rdma_engine/transport/rc/ring_queue_pairs.h"
#include "rdma_engine/transport/rc/ring_session.h"
#include "rdma_engine/wire/roce_frame.h"

namespace jaxina::sim {

// Origin::slot of frames that are not the ring's.
inline constexpr std::uint16_t kForeign = 0xffff;

// What the oracles know of one incarnation of a job.
struct RingBooks {
  std::vector<std::uint64_t> received;  // per worker: packets that it has from the previous one
  std::uint64_t sums = 0;               // passes that the switch has completed
  std::string_view broken;
};

inline constexpr std::uint32_t kProbes = roce::MessageLayout::kPlaces;

// Whether the fields that the ICRC does not cover are as hosts send them. Nobody changes them here, so other ones were
// corrupted; if they were accepted, the oracles could not tell that the corruption does no harm.
inline bool is_as_sent(std::span<const std::uint8_t> frame, const roce::RoceFrame& read) {
  std::vector<std::uint8_t> again(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(read.headers.size()));
  roce::write_frame_headers(read.flow, read.identification.id, again.data());
  again.insert(again.end(), frame.begin() + static_cast<std::ptrdiff_t>(read.headers.size()), frame.end());
  again[roce::kBthAt + offsetof(roce::BthBytes, congestion)] = 0;
  const std::size_t size = roce::finish_frame(again.data(), again.size() - roce::kIcrcSize);
  return size == frame.size() && std::equal(again.begin(), again.end() - roce::kIcrcSize, frame.begin());
}

inline std::optional<roce::RoceFrame> read_sent(const Packet& packet) {
  const std::optional<roce::RoceFrame> read = roce::read_frame(packet.view());
  return read && is_as_sent(packet.view(), *read) ? read : std::nullopt;
}

class SimulatedRing final : public rc::RingQueuePairs {
 public:
  struct Hosts {
    std::uint16_t previous = 0, own = 0, next = 0;
    std::uint16_t gate = kSwitch;  // the switch that the own host is connected to
  };
  SimulatedRing(const roce::ConnectionEnd& local, const JobShape& shape, const rc::RequesterConfig& options,
                const Hosts& hosts, std::shared_ptr<RingBooks> books, Random& random)
      : RingQueuePairs(local, shape, options), hosts_(hosts), books_(std::move(books)), random_(random) {}

  // Workers may post in different orders.
  Status flush() override {
    for (std::size_t left = posted().size(); left > 1; --left) {
      std::swap(posted()[left - 1], posted()[random_.below(left)]);
    }
    post_all();
    return {};
  }
  Status poll(std::vector<Arrival>&) override { return {}; }
  void wait(Nanoseconds) override {}
  void interrupt() override {}
  Counters counters() const override { return {}; }

  std::optional<Arrival> arrive(const roce::Packet& packet, Nanoseconds now) { return on_packet(packet, now); }
  void on_tick(Nanoseconds now) { requester().on_tick(now); }
  std::optional<Nanoseconds> next_deadline() const { return requester().next_deadline(); }
  std::uint64_t acknowledged() const { return requester().acknowledged(); }
  std::uint64_t received() { return responder().received(); }

  // Sends what can be sent now: answers first.
  void send_all(Nanoseconds now, WorkerEnd::Output& output) {
    while (const std::optional<roce::Headers> answer = responder().take_answer()) {
      Packet packet = frame_to(hosts_.previous, *answer, nullptr, 0, 0);
      output.send(packet);
    }
    while (const auto sent = requester().next_packet(now)) {
      Packet packet = frame_to(hosts_.next, sent->headers, &sent->request.write, sent->offset, sent->size);
      const roce::PassName name = *roce::pass_at(sent->request.id);
      packet.origin.slot = name.slot;
      const bool is_probe = sent->request.write.head.size() == rc::RingProbe::kBytes;
      if (!is_probe && books_->sums < kProbes)
        books_->broken = "a worker sends data before the switch has summed its probes";
      // To the switch, probes are passes of slot 0, before the worker's own.
      packet.origin.epoch = name.epoch + (name.slot == 0 && !is_probe ? kProbes : 0);
      packet.origin.repeated = sent->repeated;
      output.send(packet);
    }
  }

 private:
  Packet frame_to(std::uint16_t host, const roce::Headers& headers, const roce::Write* write, std::size_t offset,
                  std::size_t size) {
    Packet packet;
    packet.to = hosts_.gate;
    roce::write_frame_headers(flow_between(hosts_.own, host), next_id_++, packet.bytes.data());
    std::uint8_t* bth = packet.bytes.data() + roce::kBthAt;
    if (write != nullptr) roce::write_packet(*write, headers, offset, size, bth);
    else roce::write(headers, bth);
    const std::size_t end = roce::kBthAt + roce::header_size(headers.opcode) + size + headers.pad;
    packet.size = narrow<std::uint16_t>(roce::finish_frame(packet.bytes.data(), end));
    return packet;
  }

  Hosts hosts_;
  std::shared_ptr<RingBooks> books_;
  Random& random_;
  std::uint16_t next_id_ = 0;
};

class RingEnd final : public MessageEnd {
 public:
  RingEnd(const roce::MessageSessionConfig& config, std::unique_ptr<SimulatedRing> ring,
          const SimulatedRing::Hosts& hosts, std::shared_ptr<RingBooks> books, Random& random)
      : MessageEnd(config, *ring),
        ring_(std::move(ring)),
        ring_session_(session(), config, rc::RingProbe(*ring_, config.shape, config.job, config.secret)),
        hosts_(hosts),
        worker_(config.worker),
        workers_(config.shape.workers()),
        books_(std::move(books)),
        random_(random) {}

  std::optional<Pass> send_next(Nanoseconds now, WorkerEnd::Output& output) override {
    std::optional<Pass> posted;
    static_cast<void>(ring_session_.post_next(now, posted));  // posting cannot fail
    if (posted && posted->retransmission()) books_->broken = "a worker repairs a loss that its connection repairs";
    if (posted) return posted;
    static_cast<void>(ring_->flush());
    ring_->send_all(now, output);
    if (random_.one_in(8)) send_foreign(output);
    return std::nullopt;
  }
  void arrive(const Packet& packet, Nanoseconds now, WorkerEnd::Output& output) override {
    const std::optional<roce::RoceFrame> read = read_sent(packet);
    if (!read || !read->is_intact()) return;
    const bool is_mine =
        read->flow == flow_between(hosts_.previous, hosts_.own) || read->flow == flow_between(hosts_.next, hosts_.own);
    if (!is_mine) return;
    if (const auto arrival = ring_->arrive(read->packet, now)) add_unread(*arrival, packet.origin);
    books_->received[worker_] = ring_->received();
    if (ring_->acknowledged() > books_->received[(worker_ + 1) % workers_]) {
      books_->broken = "an acknowledgement reaches a worker of what the next one does not have";
    }
    ring_->send_all(now, output);
  }
  std::optional<Nanoseconds> card_deadline() const override { return ring_->next_deadline(); }
  void on_card_tick(Nanoseconds now, WorkerEnd::Output& output) override {
    ring_->on_tick(now);
    ring_->send_all(now, output);
  }

  std::optional<Reply> next_reply(Nanoseconds now, Origin& origin) override {
    std::optional<Reply> reply = MessageEnd::next_reply(now, origin);
    if (!reply && !ring_->ended().ok()) return failure(ring_->ended());
    return reply;
  }

 private:
  Reply take(const roce::MessageQueues::Arrival& arrival, Nanoseconds now) override {
    const bool is_probe = ring_session_.is_probing();
    const Status status = ring_session_.on_arrival(arrival, now);
    return !status.ok() ? failure(status) : Reply{is_probe ? Kind::kStale : Kind::kResult};
  }
  Reply failure(const Status& status) {
    failure_ = status.message;
    Reply reply{Kind::kAborted};
    reply.header.code = narrow<std::uint8_t>(static_cast<int>(status.code));
    reply.payload = {reinterpret_cast<const std::uint8_t*>(failure_.data()), failure_.size()};
    return reply;
  }
  // A frame that is no business of the switch: of another protocol, or of another queue pair of the same hosts.
  void send_foreign(WorkerEnd::Output& output) {
    Packet packet;
    packet.to = hosts_.gate;
    packet.origin.slot = kForeign;
    roce::write_frame_headers(flow_between(hosts_.own, hosts_.next), static_cast<std::uint16_t>(random_.next()),
                              packet.bytes.data());
    const std::size_t size = roce::kBthAt + random_.below(80) + roce::kMaxHeaders;
    for (std::size_t at = roce::kBthAt; at < size; ++at) packet.bytes[at] = static_cast<std::uint8_t>(random_.next());
    if (random_.one_in(2)) {
      packet.bytes[12] = 0x88, packet.bytes[13] = 0xb5;  // an EtherType for local experiments
      packet.size = narrow<std::uint16_t>(size);
    } else {
      roce::write({.opcode = roce::Opcode::kRcWriteOnlyImm, .qpn = kForeignQpn}, &packet.bytes[roce::kBthAt]);
      packet.size = narrow<std::uint16_t>(roce::finish_frame(packet.bytes.data(), size));
    }
    output.send(packet);
  }
  static constexpr std::uint32_t kForeignQpn = 1;

  std::unique_ptr<SimulatedRing> ring_;
  rc::RingSession ring_session_;
  std::string failure_;  // the sentence of the latest one
  SimulatedRing::Hosts hosts_;
  std::uint32_t worker_, workers_;
  std::shared_ptr<RingBooks> books_;
  Random& random_;
};

}  // namespace jaxina::sim
