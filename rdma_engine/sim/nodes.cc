// The nodes of a simulation's network: hosts with their workers first, then the switches of racks, then the servers, in
// the workers' processes or on hosts of their own. What they send, and a look at what they have counted.
#include <algorithm>
#include <numeric>

#include "rdma_engine/base/narrow.h"
#include "rdma_engine/sim/simulation.h"

namespace jaxina::sim {

void Simulation::make_nodes() {
  const bool combines = plan_.features & kCombining;
  const std::uint32_t racks = plan_.combining.racks;
  const auto hosts = narrow<std::uint16_t>(hosts_.size());
  for (std::uint16_t index = 0; index < hosts; ++index) {
    const Host& host = hosts_[index];
    const JobPlan& job = *run_of(host).plan;
    // In a ring, the workers of a rack follow each other.
    const std::uint32_t rack =
        plan_.features & kRing ? host.rank * racks / job.shape.workers() : std::uint32_t{index} % racks;
    const std::uint16_t parent = racks > 1 ? narrow<std::uint16_t>(hosts + rack) : kSwitch;
    network_.add_node(job.links[host.rank], parent);
    nodes_.switch_of.push_back(parent);
  }
  if (racks > 1) {
    for (std::uint32_t rack = 0; rack < racks; ++rack) nodes_.leaves.push_back(network_.add_node(plan_.combining.core));
  }
  if (!combines) {
    switch_ = plan_.features & kRing       ? make_ring_protocol(random_, nodes_)
              : plan_.features & kMessages ? make_message_protocol(random_)
                                           : make_datagram_protocol();
    return;
  }
  for (std::uint32_t server = 0; server < plan_.combining.servers; ++server) {
    nodes_.servers.push_back(network_.add_node(plan_.combining.server_link));
  }
  if (nodes_.servers.empty()) {
    for (std::uint16_t host = 0; host < hosts; ++host) nodes_.server_of.push_back(network_.add_process(host));
  }
  switch_ = make_combining_protocol(plan_.combining, nodes_);
}

bool Simulation::is_switch(std::uint16_t node) const {
  return node == kSwitch || std::find(nodes_.leaves.begin(), nodes_.leaves.end(), node) != nodes_.leaves.end();
}

// The worker's process that has the node, or null.
Simulation::Host* Simulation::process_at(std::uint16_t node) {
  if (node < hosts_.size()) return &hosts_[node];
  const auto server = std::find(nodes_.server_of.begin(), nodes_.server_of.end(), node);
  return server == nodes_.server_of.end() ? nullptr
                                          : &hosts_[static_cast<std::size_t>(server - nodes_.server_of.begin())];
}

std::vector<std::uint16_t> Simulation::hosts_of(const JobRun& run) const {
  std::vector<std::uint16_t> hosts(run.plan->shape.workers());
  std::iota(hosts.begin(), hosts.end(), run.first_host);
  return hosts;
}

Outcome::Look Simulation::look() const {
  Outcome::Look look;
  for (const JobRun& run : jobs_) {
    std::uint64_t results = 0;
    for (const Counters* counters : run.counters) results += (*counters)[Counter::kResults];
    look.results.push_back(results);
    look.at_switches.push_back(switch_->at_switches(run.spec.job));
  }
  for (const std::uint16_t server : nodes_.servers) look.to_servers += network_.towards(server);
  for (std::uint16_t host = 0; host < narrow<std::uint16_t>(hosts_.size()); ++host)
    look.to_workers += network_.towards(host);
  look.to_first_worker = network_.towards(0);
  look.retransmissions = outcome_.retransmissions;
  if (tcp_stream_) look.tcp_bytes = tcp_stream_->delivered();
  return look;
}

void Simulation::send(std::uint16_t from, std::uint16_t to, std::span<const std::uint8_t> bytes) {
  if (to != kSwitch && to >= network_.nodes()) return;  // the hostile sender ignores replies
  if (const Host* sender = process_at(from); sender != nullptr && sender->dead) return;
  Packet packet;
  // A switch may send a packet on, or send a sum that the packet has completed.
  const bool on = handled_ != nullptr && is_sent_on(bytes);
  const std::uint16_t worker = handled_ != nullptr && to >= hosts_.size() ? handled_->origin.host : to;
  packet.origin =
      on ? handled_->origin : Origin{.maker = Origin::Maker::kSwitch, .host = worker, .generation = replying_to_};
  packet.from = from;
  packet.to = to;
  packet.size = static_cast<std::uint16_t>(bytes.size());
  std::copy(bytes.begin(), bytes.end(), packet.bytes.begin());
  if (const WorkerSet* workers = switch_->combined(packet)) check_combined(packet, *workers);
  transmit(packet);
}

void Simulation::send_of_host(std::uint16_t host, Packet& packet) {
  packet.origin.maker = Origin::Maker::kWorker;
  packet.origin.host = host;
  packet.origin.generation = run_of(hosts_[host]).generation;
  packet.from = host;
  if (plan_.features & kCombining) remember_contribution(packet);
  if (plan_.features & kRing) outcome_.retransmissions += packet.origin.repeated;
  transmit(packet);
}

void Simulation::transmit(const Packet& packet) {
  if (plan_.hostile_packets > 0) remember(packet);
  const Fate fate = network_.send(packet, now_);
  if (trace_ != nullptr) tell_sent(packet, fate);
}

}  // namespace jaxina::sim
