// The simulator's protocol for datagrams: Session and DatagramAggregator, as over udp.
#include <cstring>

#include "rdma_engine/base/narrow.h"
#include "rdma_engine/datagrams/datagram_aggregator.h"
#include "rdma_engine/sim/datagram_nodes.h"

namespace jaxina::sim {
namespace {

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
                      .stream = {.shape = plan.shape, .timer = plan.timer, .window = plan.window}},
        std::vector<std::uint16_t>{kSwitch});
  }

  void on_packet(const Packet& packet, Nanoseconds, Output& output) override {
    NodeOutput sender(output, kSwitch);
    aggregator_.on_packet(packet.view(), address_of(packet.from), sender);
  }
  void on_overflow() override { aggregator_.on_overflow(); }
  Counters other_counters() const override { return aggregator_.without_job(); }
  bool accounts_for_packets() const override { return true; }

  std::optional<Description> describe(const Packet& packet) const override { return describe_datagram(packet); }

 private:
  DatagramAggregator aggregator_;
};

}  // namespace

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
