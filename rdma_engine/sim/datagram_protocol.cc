// The simulator's protocol for datagrams: Session and DatagramAggregator, as over udp.
#include <cstring>
#include <utility>

#include "rdma_engine/base/narrow.h"
#include "rdma_engine/datagrams/datagram_aggregator.h"
#include "rdma_engine/datagrams/session.h"
#include "rdma_engine/sim/datagram_nodes.h"
#include "rdma_engine/sim/trace.h"

namespace jaxina::sim {
namespace {

class DatagramEnd final : public WorkerEnd {
 public:
  explicit DatagramEnd(const SessionConfig& config) : session_(config) {}

  Worker& worker() override { return session_.worker(); }

  std::optional<Pass> send_next(Nanoseconds now, WorkerEnd::Output& output) override {
    Packet packet;
    const auto outgoing = session_.next_packet(now, packet.bytes.data());
    if (!outgoing) return std::nullopt;
    packet.size = narrow<std::uint16_t>(outgoing->size);
    packet.to = kSwitch;
    packet.origin.slot = outgoing->pass.slot;
    packet.origin.epoch = outgoing->pass.epoch;
    packet.origin.repeated = outgoing->pass.retransmission();
    output.send(packet);
    return outgoing->pass;
  }

  bool has_network_card() const override { return false; }
  void arrive(const Packet& packet) override { arrived_ = packet.from == kSwitch ? &packet : nullptr; }
  std::optional<Reply> next_reply(Nanoseconds now, Origin& origin) override {
    const Packet* packet = std::exchange(arrived_, nullptr);
    const std::optional<wire::Header> header = packet != nullptr ? session_.accept(packet->view()) : std::nullopt;
    if (!header) return std::nullopt;
    origin = packet->origin;
    return Reply{kind_of(session_.on_reply(*header, packet->view(), now)), *header,
                 packet->view().subspan(wire::kHeaderSize)};
  }

 private:
  Session session_;
  const Packet* arrived_ = nullptr;
};

class DatagramProtocol final : public Protocol {
 public:
  std::vector<const Counters*> add(const JobSpec& spec, std::span<const std::uint16_t>) override {
    if (!aggregator_.add(std::make_unique<DatagramJob>(spec, Shard{}))) return {};
    return {&aggregator_.find(spec.job)->counters()};
  }
  void remove(std::uint32_t job) override { aggregator_.remove(job); }
  void abort(std::uint32_t job, const Status& reason, Output& output) override {
    NodeOutput sender(output, kSwitch);
    aggregator_.abort(job, reason, sender);
  }
  std::unique_ptr<WorkerEnd> join(const JobSpec& spec, std::uint32_t worker, std::uint16_t,
                                  const JobPlan& plan) override {
    return std::make_unique<DatagramEnd>(
        SessionConfig{.job = spec.job,
                      .secret = spec.secret,
                      .worker = narrow<std::uint16_t>(worker),
                      .stream = {.shape = plan.shape, .timer = plan.timer, .window = plan.window}});
  }

  void on_packet(const Packet& packet, Nanoseconds, Output& output) override {
    NodeOutput sender(output, kSwitch);
    aggregator_.on_packet(packet.view(), address_of(packet.from), sender);
  }
  void on_overflow() override { aggregator_.on_overflow(); }
  const Counters& without_job() const override { return aggregator_.without_job(); }
  bool accounts_for_packets() const override { return true; }

  std::optional<Description> describe(const Packet& packet) const override { return describe_datagram(packet); }

 private:
  DatagramAggregator aggregator_;
};

}  // namespace

WorkerEnd::Kind kind_of(Session::Reply reply) {
  switch (reply) {
    case Session::Reply::kResult: return WorkerEnd::Kind::kResult;
    case Session::Reply::kStale: return WorkerEnd::Kind::kStale;
    case Session::Reply::kPending: return WorkerEnd::Kind::kPending;
    case Session::Reply::kRefused: return WorkerEnd::Kind::kRefused;
    case Session::Reply::kAborted: return WorkerEnd::Kind::kAborted;
  }
  return WorkerEnd::Kind::kStale;
}

std::optional<Protocol::Description> describe_datagram(const Packet& packet) {
  wire::Header header;
  if (wire::parse(packet.view(), header) != wire::ParseResult::kOk) return std::nullopt;
  const bool look_ahead = !wire::is_reply(header.kind) && header.words == 0;
  return Protocol::Description{header.kind == wire::Kind::kAbort ? Trace::kEverySlot : header.slot,
                               std::string(to_string(header.kind)) + " epoch " + std::to_string(header.epoch) +
                                   (look_ahead ? " (exponents only)" : "")};
}

std::unique_ptr<Protocol> make_datagram_protocol() { return std::make_unique<DatagramProtocol>(); }

Address address_of(std::uint16_t host) {
  Address address;
  std::memcpy(address.bytes.data(), &host, sizeof(host));
  address.size = sizeof(host);
  return address;
}

std::uint16_t host_at(const Address& address) {
  std::uint16_t host;
  std::memcpy(&host, address.bytes.data(), sizeof(host));
  return host;
}

}  // namespace jaxina::sim
