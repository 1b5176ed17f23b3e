// The simulator's protocol with a server in each worker's process, and switches that combine updates on their way
// there.
#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "rdma_engine/base/narrow.h"
#include "rdma_engine/combiner/combiner.h"
#include "rdma_engine/datagrams/datagram_aggregator.h"
#include "rdma_engine/sim/datagram_nodes.h"
#include "rdma_engine/sim/mark_oracle.h"

namespace jaxina::sim {
namespace {

class CombiningProtocol final : public Protocol {
 public:
  CombiningProtocol(const CombiningPlan& plan, const Nodes& nodes) : plan_(plan), nodes_(nodes) {
    for (const auto& servers : {nodes.server_of, nodes.servers}) {
      for (const std::uint16_t server : servers) servers_[server];
    }
    wipe_switches();
  }

  std::vector<const Counters*> add(const JobSpec& spec, std::span<const std::uint16_t> hosts) override;
  void remove(std::uint32_t job) override {
    for (auto& [node, server] : servers_) server.remove(job);
    for (auto& [node, combiner] : switches_) {
      gone_ += counters_of(combiner, job);
      combiner.remove(job);
    }
    jobs_.erase(job);
  }
  void abort(std::uint32_t job, const Status& reason, Output& output) override {
    for (auto& [node, server] : servers_) {
      NodeOutput sender(output, node);
      server.abort(job, reason, sender);
    }
  }
  std::unique_ptr<WorkerEnd> join(const JobSpec& spec, std::uint32_t worker, std::uint16_t host,
                                  const JobPlan& plan) override {
    const std::vector<std::uint16_t> servers = servers_of(jobs_.at(spec.job));
    // As in the udp transport: each server's passes are in order.
    const auto paths = narrow<std::uint32_t>(std::min<std::size_t>(servers.size(), plan.shape.slots()));
    const SessionConfig config{
        .job = spec.job,
        .secret = spec.secret,
        .worker = narrow<std::uint16_t>(worker),
        .stream = {.shape = plan.shape, .timer = plan.timer, .paths = paths, .window = plan.window},
        .switches = 1};
    return std::make_unique<DatagramEnd>(config, servers, nodes_.switch_of[host]);
  }

  void on_packet(const Packet& packet, Nanoseconds now, Output& output) override {
    if (now >= plan_.first_rack_learns_at) {
      for (auto& job : std::exchange(not_yet_known_, {})) switches_.at(nodes_.leaves[0]).add(std::move(job));
    }
    NodeOutput sender(output, packet.to);
    if (const auto server = servers_.find(packet.to); server != servers_.end()) {
      at_server(server->second, packet, sender);
    } else {
      at_switch(switches_.at(packet.to), packet, now, sender);
    }
  }
  void on_overflow() override {}
  void wipe_switches() override;
  void restore_switches() override {
    for (const auto& [id, job] : jobs_) add_to_switches(job);
  }

  const WorkerSet* combined(const Packet& packet) const override {
    wire::Header header;
    if (!switches_.contains(packet.from)) return nullptr;
    if (wire::parse(packet.view(), header) != wire::ParseResult::kOk || header.kind != wire::Kind::kCombined) {
      return nullptr;
    }
    const auto job = jobs_.find(header.job);
    const auto group = static_cast<std::size_t>(header.worker - wire::kFirstGroup);
    return job != jobs_.end() && group < job->second.groups.size() ? &job->second.groups[group] : nullptr;
  }
  std::string_view broken() const override { return broken_; }
  std::size_t entries_held_after_lifetime(Nanoseconds now) const override {
    std::size_t held = 0;
    for (const auto& [node, combiner] : switches_) held += combiner.entries_held(now + plan_.lifetime + 1);
    return held;
  }
  Counters other_counters() const override;
  Counters at_switches(std::uint32_t job) const override {
    Counters sum;
    for (const auto& [node, combiner] : switches_) sum += counters_of(combiner, job);
    return sum;
  }
  bool accounts_for_packets() const override { return true; }
  std::optional<Description> describe(const Packet& packet) const override { return describe_datagram(packet); }

 private:
  struct Job {
    JobSpec spec;
    std::vector<std::uint16_t> hosts;  // per worker
    std::vector<WorkerSet> groups;     // per rack, then the group of all
  };

  // The hostile sender has no server, so it takes its own packets.
  std::uint16_t server_of(std::uint16_t host) const {
    return host < nodes_.server_of.size() ? nodes_.server_of[host] : host;
  }
  // Slot i is summed at the job's server i mod their number.
  std::vector<std::uint16_t> servers_of(const Job& job) const {
    if (!nodes_.servers.empty()) return nodes_.servers;
    std::vector<std::uint16_t> servers;
    for (const std::uint16_t host : job.hosts) servers.push_back(server_of(host));
    return servers;
  }
  std::size_t rack_of(std::uint16_t host) const {
    const std::uint16_t near = host < nodes_.switch_of.size() ? nodes_.switch_of[host] : kSwitch;
    std::size_t rack = 0;
    while (rack + 1 < nodes_.leaves.size() && nodes_.leaves[rack] != near) ++rack;
    return rack;
  }
  static Counters counters_of(const Combiner& combiner, std::uint32_t job) {
    const CombinedJob* known = combiner.find(job);
    return known != nullptr ? known->counters() : Counters{};
  }
  Counters counters_of_switches() const;
  void at_switch(Combiner& combiner, const Packet& packet, Nanoseconds now, PacketOutput& output);
  void at_server(DatagramAggregator& server, const Packet& packet, PacketOutput& output);
  void add_to_switches(const Job& job);
  std::vector<Child> workers_in(const WorkerSet& set, const Job& job) const;

  CombiningPlan plan_;
  Nodes nodes_;
  std::map<std::uint16_t, DatagramAggregator> servers_;
  std::map<std::uint16_t, Combiner> switches_;
  std::map<std::uint32_t, Job> jobs_;
  Counters none_;
  Counters gone_;  // of switches' jobs that were removed, and of switches that have lost their memory
  std::vector<std::unique_ptr<CombinedJob>> not_yet_known_;  // to the switch of the first rack
  std::string_view broken_;
  MarkOracle marks_;
};

// No packet frees an entry of another job. Only the result of its own pass frees an entry of the packet's job.
void CombiningProtocol::at_switch(Combiner& combiner, const Packet& packet, Nanoseconds now, PacketOutput& output) {
  wire::Header header;
  const bool sound = wire::parse(packet.view(), header) == wire::ParseResult::kOk;
  const std::uint32_t job = sound ? header.job : 0;
  const std::size_t own = combiner.entries_held(job, now), others = combiner.entries_held(now) - own;
  const std::uint64_t marked = counters_of(combiner, job)[Counter::kMarked];
  if (sound) marks_.arrived(packet.to, header);
  MarkOracle::Output checked(output, [&](const wire::Header& sent) {
    const bool by_switch = counters_of(combiner, job)[Counter::kMarked] > marked;
    if (!by_switch && !marks_.has_come(packet.to, sent)) broken_ = "a switch sends a mark that its pass does not have";
  });
  combiner.on_packet(packet.view(), address_of(packet.from), now, checked);
  const std::size_t own_now = combiner.entries_held(job, now), others_now = combiner.entries_held(now) - own_now;
  if (others_now != others) broken_ = "a packet frees another job's entry before its lifetime has passed";
  const bool is_result = sound && header.kind == wire::Kind::kResult;
  if (own_now + (is_result ? 1 : 0) < own) broken_ = "a packet throws away contributions of other workers";
}

void CombiningProtocol::at_server(DatagramAggregator& server, const Packet& packet, PacketOutput& output) {
  wire::Header header;
  if (wire::parse(packet.view(), header) == wire::ParseResult::kOk) marks_.arrived(packet.to, header);
  MarkOracle::Output checked(output, [&](const wire::Header& sent) {
    if (!marks_.may_repeat(packet.to, sent)) broken_ = "a server repeats a mark that has not come";
  });
  server.on_packet(packet.view(), address_of(packet.from), checked);
}

Counters CombiningProtocol::counters_of_switches() const {
  Counters sum;
  for (const auto& [node, combiner] : switches_) {
    sum += combiner.without_job();
    for (const auto& [id, job] : jobs_) sum += counters_of(combiner, id);
  }
  return sum;
}

Counters CombiningProtocol::other_counters() const {
  Counters sum = gone_;
  for (const auto& [node, server] : servers_) sum += server.without_job();
  return sum += counters_of_switches();
}

void CombiningProtocol::wipe_switches() {
  gone_ += counters_of_switches();
  switches_.clear();
  const CombinerOptions options{.table = {.entries = plan_.entries, .packet_bytes = kMaxPacket},
                                .lifetime = plan_.lifetime,
                                .share_sent_on = plan_.share_sent_on,
                                .queues = plan_.queues};
  switches_.emplace(kSwitch, options);
  for (const std::uint16_t leaf : nodes_.leaves) switches_.emplace(leaf, options);
}

std::vector<const Counters*> CombiningProtocol::add(const JobSpec& spec, std::span<const std::uint16_t> hosts) {
  if (jobs_.contains(spec.job)) return {};
  Job& job = jobs_.emplace(spec.job, Job{spec, {hosts.begin(), hosts.end()}, {}}).first->second;
  if (!nodes_.leaves.empty()) job.groups.resize(nodes_.leaves.size());
  WorkerSet everybody{};
  for (std::uint32_t worker = 0; worker < hosts.size(); ++worker) {
    if (!nodes_.leaves.empty()) insert(job.groups[rack_of(hosts[worker])], worker);
    insert(everybody, worker);
  }
  job.groups.push_back(everybody);
  add_to_switches(job);

  std::vector<const Counters*> counters;
  const std::vector<std::uint16_t> nodes = servers_of(job);
  for (std::uint32_t part = 0; part < nodes.size(); ++part) {
    const auto server = servers_.find(nodes[part]);
    if (server == servers_.end()) continue;
    CombiningSwitches switches{.groups = job.groups, .addresses = {address_of(kSwitch)}};
    server->second.add(std::make_unique<DatagramJob>(spec, Shard{part, narrow<std::uint32_t>(nodes.size())}, switches));
    counters.push_back(&server->second.find(spec.job)->counters());
  }
  if (counters.empty()) counters.push_back(&none_);
  return counters;
}

std::vector<Child> CombiningProtocol::workers_in(const WorkerSet& set, const Job& job) const {
  std::vector<Child> children;
  for (std::uint32_t worker = 0; worker < job.hosts.size(); ++worker) {
    if (!contains(set, worker)) continue;
    children.push_back({.sender = narrow<std::uint16_t>(worker)});
    insert(children.back().workers, worker);
  }
  return children;
}

void CombiningProtocol::add_to_switches(const Job& job) {
  CombinedJobSpec root{.job = job.spec.job, .secret = job.spec.secret, .shape = job.spec.shape};
  root.group = narrow<std::uint32_t>(job.groups.size() - 1);
  for (const std::uint16_t server : servers_of(job)) root.upstream.push_back(address_of(server));
  if (nodes_.leaves.empty()) root.children = workers_in(job.groups.back(), job);
  for (std::uint32_t rack = 0; rack < nodes_.leaves.size(); ++rack) {
    CombinedJobSpec leaf = root;
    leaf.group = rack;
    leaf.upstream = {address_of(kSwitch)};
    leaf.children = workers_in(job.groups[rack], job);
    if (leaf.children.empty()) continue;
    auto below = std::make_unique<CombinedJob>(leaf);
    if (rack == 0 && plan_.first_rack_learns_at > 0) not_yet_known_.push_back(std::move(below));
    else switches_.at(nodes_.leaves[rack]).add(std::move(below));
    // The switch of a rack with one worker has nothing to combine.
    const auto sender = narrow<std::uint16_t>(wire::kFirstGroup + rack);
    root.children.push_back(leaf.children.size() == 1 ? leaf.children.front() : Child{sender, job.groups[rack]});
  }
  switches_.at(kSwitch).add(std::make_unique<CombinedJob>(root));
}

}  // namespace

std::unique_ptr<Protocol> make_combining_protocol(const CombiningPlan& plan, const Nodes& nodes) {
  return std::make_unique<CombiningProtocol>(plan, nodes);
}

}  // namespace jaxina::sim
