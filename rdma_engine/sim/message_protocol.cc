// The simulator's protocol for RDMA messages: MessageSession over queue pairs in software, and MessageAggregator, as
// over RoCE. The simulated network checks all 32 bits of the ICRC, as a NIC does.
#include <array>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "rdma_engine/base/narrow.h"
#include "rdma_engine/messages/message_aggregator.h"
#include "rdma_engine/messages/soft_queue_pairs.h"
#include "rdma_engine/sim/message_end.h"
#include "rdma_engine/sim/roce_hosts.h"
#include "rdma_engine/sim/trace.h"

namespace jaxina::sim {
namespace {

// Small, so that even small messages take several packets.
constexpr std::uint32_t kMtu = 16;

// Calls send(bytes) for each packet of a write.
template <typename Send>
void send_packets(const roce::Write& write, std::size_t mtu, std::uint32_t& psn, const roce::Flow& flow, Send send) {
  roce::cut_into_packets(write, mtu, psn, [&](const roce::Headers& headers, std::size_t offset, std::size_t size) {
    alignas(8) std::array<std::uint8_t, kMaxPacket> bytes;
    const std::size_t total = roce::packet_size(headers, size);
    const std::span<const std::uint8_t> covered(bytes.data(), total - roce::kIcrcSize);
    roce::write_packet(write, headers, offset, size, bytes.data());
    roce::store_icrc(roce::icrc(flow, {}, covered), bytes.data() + covered.size());
    send(std::span<const std::uint8_t>(bytes.data(), total));
  });
}

// Whether the packet is valid for its two hosts; if so, stores it in `parsed`. Packets with a congestion mark are
// dropped. Nobody sets the mark here, and the ICRC does not cover it, so such a packet was corrupted; if it were
// accepted, the oracles could not tell that the corruption does no harm.
bool is_sound(const Packet& packet, roce::Packet& parsed) {
  if (roce::parse(packet.view(), parsed) != roce::ParseResult::kOk) return false;
  if (packet.bytes[offsetof(roce::BthBytes, congestion)] != 0) return false;
  const auto covered = packet.view().first(packet.size - roce::kIcrcSize);
  return roce::icrc(flow_between(packet.from, packet.to), {}, covered) == parsed.icrc;
}

class SimulatedQueuePairs final : public roce::SoftQueuePairs {
 public:
  SimulatedQueuePairs(const roce::ConnectionEnd& local, const roce::MessageLayout& layout, const JobShape& shape,
                      std::uint16_t host)
      : SoftQueuePairs(local, layout.queues(), shape.slots() * layout.stride(), layout.receive_bytes()), host_(host) {}

  // The packets of the writes posted so far.
  std::vector<Packet>& outgoing() { return outgoing_; }
  // Returns the message that the packet completed, if any.
  std::optional<Arrival> arrive(const Packet& packet) {
    roce::Packet parsed;
    std::vector<Arrival> arrivals;  // at most one
    if (is_sound(packet, parsed) && has(parsed.headers.qpn)) on_packet(parsed, arrivals);
    return arrivals.empty() ? std::nullopt : std::optional(arrivals.front());
  }

  void connect(const roce::ConnectionEnd& remote) override { connect_to(remote, address_of(kSwitch)); }
  Status flush() override { return {}; }
  Status poll(std::vector<Arrival>&) override { return {}; }
  void wait(Nanoseconds) override {}
  void interrupt() override {}
  Counters counters() const override { return {}; }

 private:
  void send(const roce::Write& write, std::size_t mtu, std::uint32_t& psn) override {
    send_packets(write, mtu, psn, flow_between(host_, kSwitch), [this](std::span<const std::uint8_t> bytes) {
      Packet& packet = outgoing_.emplace_back();
      packet.to = kSwitch;
      packet.size = narrow<std::uint16_t>(bytes.size());
      std::memcpy(packet.bytes.data(), bytes.data(), bytes.size());
    });
  }
  std::uint16_t host_;
  std::vector<Packet> outgoing_;
};

class UnreliableEnd final : public MessageEnd {
 public:
  UnreliableEnd(const roce::MessageSessionConfig& config, std::unique_ptr<SimulatedQueuePairs> pairs)
      : MessageEnd(config, *pairs), pairs_(std::move(pairs)) {}

  std::optional<Pass> send_next(Nanoseconds now, WorkerEnd::Output& output) override {
    std::optional<Pass> posted;
    static_cast<void>(session().post_next(now, posted));  // these queue pairs cannot fail
    for (Packet& packet : pairs_->outgoing()) {
      packet.origin.slot = posted->slot;
      packet.origin.epoch = posted->epoch;
      packet.origin.repeated = posted->retransmission();
      output.send(packet);
    }
    pairs_->outgoing().clear();
    return posted;
  }
  void arrive(const Packet& packet, Nanoseconds, WorkerEnd::Output&) override {
    if (packet.from != kSwitch) return;
    if (const auto arrival = pairs_->arrive(packet)) add_unread(*arrival, packet.origin);
  }

 private:
  std::unique_ptr<SimulatedQueuePairs> pairs_;
};

class MessageProtocol final : public Protocol {
 public:
  explicit MessageProtocol(Random& random) : random_(random), aggregator_(0) {}

  std::vector<const Counters*> add(const JobSpec& spec, std::span<const std::uint16_t>) override {
    if (!aggregator_.add(std::make_unique<MessageJob>(spec, static_cast<std::uint32_t>(random_.next())))) return {};
    return {&aggregator_.find(spec.job)->aggregator().counters()};
  }
  void remove(std::uint32_t job) override { aggregator_.remove(job); }
  void abort(std::uint32_t job, const Status& reason, Output& output) override {
    Sender sender(output);
    aggregator_.abort(job, reason, sender);
  }
  std::unique_ptr<WorkerEnd> join(const JobSpec& spec, std::uint32_t worker, std::uint16_t host,
                                  const JobPlan& plan) override;

  void on_packet(const Packet& packet, Nanoseconds, Output& output) override {
    roce::Packet parsed;
    if (!is_sound(packet, parsed)) return;
    const auto same = [](const Address& a, const Address& b) { return a == b; };
    if (!aggregator_.knows(parsed.headers.qpn, address_of(packet.from), same)) return;
    Sender sender(output);
    aggregator_.on_packet(parsed, sender);
  }
  void on_overflow() override {}
  Counters other_counters() const override { return aggregator_.without_job(); }
  bool accounts_for_packets() const override { return false; }

  std::optional<Description> describe(const Packet& packet) const override {
    roce::Packet parsed;
    if (!is_sound(packet, parsed)) return std::nullopt;
    const bool from_worker = packet.origin.maker == Origin::Maker::kWorker;
    return Description{
        from_worker ? packet.origin.slot : Trace::kEverySlot,
        (from_worker ? "epoch " + std::to_string(packet.origin.epoch) + ", " : "") + to_string(parsed.headers)};
  }

 private:
  class Sender final : public MessageAggregator::Output {
   public:
    explicit Sender(Protocol::Output& output) : output_(output) {}
    void send(const roce::Write& write, std::size_t mtu, std::uint32_t& psn) override {
      const std::uint16_t host = host_at(write.peer);
      send_packets(write, mtu, psn, flow_between(kSwitch, host),
                   [&](std::span<const std::uint8_t> bytes) { output_.send(kSwitch, host, bytes); });
    }

   private:
    Protocol::Output& output_;
  };
  Random& random_;
  MessageAggregator aggregator_;
};

std::unique_ptr<WorkerEnd> MessageProtocol::join(const JobSpec& spec, std::uint32_t worker, std::uint16_t host,
                                                 const JobPlan& plan) {
  const roce::MessageLayout layout(spec.shape);
  const roce::ConnectionEnd local{.address = {},
                                  .mtu = kMtu,
                                  .qpns = {static_cast<std::uint32_t>(random_.below(roce::kMask24 - layout.queues()))},
                                  .psn = draw_psn(random_),
                                  .rkey = static_cast<std::uint32_t>(random_.next())};
  auto pairs = std::make_unique<SimulatedQueuePairs>(local, layout, spec.shape, host);

  auto connection = std::make_unique<MessageJob::Connection>();
  connection->worker = worker;
  connection->remote = pairs->local();
  connection->peer = address_of(host);
  connection->mtu = kMtu;
  connection->queues.resize(layout.queues());
  roce::ConnectionEnd remote{
      .address = {}, .mtu = kMtu, .qpns = {}, .psn = draw_psn(random_), .rkey = aggregator_.find(spec.job)->rkey()};
  for (auto& queue : connection->queues) queue.psn = remote.psn;
  const MessageJob::Connection& made = *connection;
  aggregator_.connect(spec.job, std::move(connection));
  for (std::uint32_t i = 0; i < layout.queues(); ++i) remote.qpns.push_back(made.first_qpn + i);
  pairs->connect(remote);
  return std::make_unique<UnreliableEnd>(
      roce::MessageSessionConfig{
          .shape = spec.shape, .job = spec.job, .secret = spec.secret, .timer = plan.timer, .worker = worker},
      std::move(pairs));
}

}  // namespace

std::unique_ptr<Protocol> make_message_protocol(Random& random) { return std::make_unique<MessageProtocol>(random); }

}  // namespace jaxina::sim
