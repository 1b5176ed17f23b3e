// The simulator's protocol for NetReduce: workers in a ring, and a transparent switch between them, or a leaf in each
// rack and a spine above them.
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rdma_engine/base/narrow.h"
#include "rdma_engine/netreduce/ring_racks.h"
#include "rdma_engine/netreduce/transparent_switch.h"
#include "rdma_engine/sim/ring_end.h"
#include "rdma_engine/sim/trace.h"

namespace jaxina::sim {
namespace {

class RingProtocol final : public Protocol {
 public:
  RingProtocol(Random& random, const Nodes& nodes) : random_(random), nodes_(nodes) {}

  std::vector<const Counters*> add(const JobSpec& spec, std::span<const std::uint16_t> hosts) override;
  void remove(std::uint32_t job) override {
    for (auto& [node, at] : switches_) at.rings.remove(job);
  }
  void lose(std::uint32_t job) override;
  // The switch speaks to nobody. The control plane tells the workers.
  void abort(std::uint32_t, const Status&, Output&) override {}
  std::unique_ptr<WorkerEnd> join(const JobSpec& spec, std::uint32_t worker, std::uint16_t host,
                                  const JobPlan& plan) override;
  void on_packet(const Packet& packet, Nanoseconds now, Output& output) override;
  void on_overflow() override {}
  std::string_view broken() const override {
    for (const auto& [id, ring] : rings_) {
      if (!ring.books->broken.empty()) return ring.books->broken;
    }
    return broken_;
  }
  Counters other_counters() const override {
    Counters sum;
    for (const auto& [node, at] : switches_) sum += at.rings.without_job();
    return sum;
  }
  bool accounts_for_packets() const override { return false; }
  std::optional<Description> describe(const Packet& packet) const override;

 private:
  struct Switch {
    netreduce::TransparentSwitch rings;
    std::uint64_t came_up = 0, went_up = 0;  // packets for other racks: from a leaf's workers, and from the leaf
  };
  // One incarnation of a job.
  struct Ring {
    std::uint64_t secret = 0;
    std::vector<std::uint16_t> hosts;       // per worker
    std::vector<roce::ConnectionEnd> ends;  // the same
    std::shared_ptr<RingBooks> books;
  };
  // Sends frames where they would have gone without the switch.
  class Sender final : public netreduce::FrameOutput {
   public:
    Sender(RingProtocol& protocol, std::uint16_t node, Protocol::Output& output)
        : protocol_(protocol), node_(node), output_(output) {}
    void send(std::uint16_t egress, std::span<const std::uint8_t> frame) override {
      ++sent_;
      latest_ = frame.data();
      const std::uint16_t next = protocol_.next_hop(node_, egress);
      if (next == node_) return;  // a damaged frame may name nobody
      if (next == kSwitch) ++protocol_.switches_[node_].went_up;
      output_.send(node_, next, frame);
    }
    // Whether exactly this frame was sent, in its own memory.
    bool has_sent_only(std::span<const std::uint8_t> frame) const { return sent_ == 1 && latest_ == frame.data(); }

   private:
    RingProtocol& protocol_;
    std::uint16_t node_;
    Protocol::Output& output_;
    std::uint32_t sent_ = 0;
    const std::uint8_t* latest_ = nullptr;
  };

  // Where a frame for a host goes from a switch; the switch itself if there is no such host.
  std::uint16_t next_hop(std::uint16_t node, std::uint16_t host) const {
    if (host >= nodes_.switch_of.size()) return node;
    const std::uint16_t gate = nodes_.switch_of[host];
    if (gate == node) return host;
    return node == kSwitch ? gate : kSwitch;
  }

  Random& random_;
  const Nodes& nodes_;
  std::map<std::uint16_t, Switch> switches_;  // by node
  std::map<std::uint32_t, Ring> rings_;       // by job
  std::uint32_t next_qpn_ = 2;
  std::string_view broken_;
};

std::vector<const Counters*> RingProtocol::add(const JobSpec& spec, std::span<const std::uint16_t> hosts) {
  Ring& ring = rings_[spec.job];
  if (ring.secret != spec.secret) {  // a new incarnation, not a switch that is told again
    ring = {.secret = spec.secret,
            .hosts = {hosts.begin(), hosts.end()},
            .ends = {},
            .books = std::make_shared<RingBooks>()};
    ring.books->received.resize(hosts.size());
    for (std::size_t worker = 0; worker < hosts.size(); ++worker) {
      ring.ends.push_back({.address = {},
                           .mtu = kRingMtu,
                           .qpns = {next_qpn_, next_qpn_ + 1},
                           .psn = draw_psn(random_),
                           .rkey = static_cast<std::uint32_t>(random_.next()),
                           .memory = roce::kSoftBase});
      next_qpn_ += 2;
    }
  }
  netreduce::RingSpec told{.job = spec.job, .shape = spec.shape, .mtu = kRingMtu, .members = {}};
  for (std::size_t worker = 0; worker < hosts.size(); ++worker) {
    const std::size_t next = (worker + 1) % hosts.size();
    const roce::Flow flow = flow_between(ring.hosts[worker], ring.hosts[next]);
    told.members.push_back({.source = flow.source,
                            .destination = flow.destination,
                            .qpn = ring.ends[next].qpns[1],
                            .first_psn = ring.ends[worker].psn,
                            .rkey = ring.ends[next].rkey,
                            .memory = ring.ends[next].memory});
  }
  std::vector<std::uint32_t> racks;
  for (const std::uint16_t host : ring.hosts) racks.push_back(nodes_.switch_of[host]);
  std::vector<const Counters*> counters;
  const auto tell = [&](std::uint16_t node, const netreduce::RingSpec& spec_of_node) {
    const netreduce::RingJob* job = switches_[node].rings.add(spec_of_node);
    if (job != nullptr) counters.push_back(&job->counters());
  };
  if (nodes_.leaves.empty()) return tell(kSwitch, told), counters;
  const netreduce::RackedRing racked = netreduce::cut_by_rack(told, racks);
  for (const auto& [leaf, spec_of_leaf] : racked.leaves) tell(narrow<std::uint16_t>(leaf), spec_of_leaf);
  tell(kSwitch, racked.spine);
  return counters;
}

// One of the switches that know the job loses it.
void RingProtocol::lose(std::uint32_t job) {
  std::vector<netreduce::TransparentSwitch*> knowing;
  for (auto& [node, at] : switches_) {
    if (at.rings.find(job) != nullptr) knowing.push_back(&at.rings);
  }
  if (!knowing.empty()) knowing[knowing.size() > 1 ? random_.below(knowing.size()) : 0]->remove(job);
}

std::unique_ptr<WorkerEnd> RingProtocol::join(const JobSpec& spec, std::uint32_t worker, std::uint16_t host,
                                              const JobPlan& plan) {
  const Ring& ring = rings_.at(spec.job);
  const std::size_t workers = ring.hosts.size(), next = (worker + 1) % workers,
                    previous = (worker + workers - 1) % workers;
  const SimulatedRing::Hosts hosts{ring.hosts[previous], host, ring.hosts[next], nodes_.switch_of[host]};
  auto pairs = std::make_unique<SimulatedRing>(
      ring.ends[worker], spec.shape, rc::RequesterConfig{.timeout = plan.ack_timeout, .retries = std::nullopt}, hosts,
      ring.books, random_);
  pairs->connect({.next = ring.ends[next], .previous = ring.ends[previous]});
  return std::make_unique<RingEnd>(roce::MessageSessionConfig{.shape = spec.shape,
                                                              .job = spec.job,
                                                              .secret = spec.secret,
                                                              .timer = plan.timer,
                                                              .worker = worker,
                                                              .summed = roce::Summed::kByPacket},
                                   std::move(pairs), hosts, ring.books, random_);
}

void RingProtocol::on_packet(const Packet& packet, Nanoseconds, Output& output) {
  const std::optional<roce::RoceFrame> read = roce::read_frame(packet.view());
  if (read && !is_as_sent(packet.view(), *read)) return;
  // A switch sends a frame where its destination's link address is: the last two bytes are the host's number.
  if (packet.size < 6) return;
  const auto egress = static_cast<std::uint16_t>(packet.bytes[4] << 8 | packet.bytes[5]);
  Switch& at = switches_[packet.to];
  if (packet.to != kSwitch && next_hop(packet.to, egress) == kSwitch) ++at.came_up;
  Sender sender(*this, packet.to, output);
  at.rings.on_frame(packet.view(), egress, sender);
  // Of a pass, one worker's packets go up from a rack. What the others send each other stays in the rack.
  if (at.went_up > at.came_up) broken_ = "a leaf sends more packets to the spine than its workers send to other racks";
  for (const auto& [id, ring] : rings_) {
    const netreduce::RingJob* job = at.rings.find(id);
    if (job != nullptr) ring.books->sums = std::max(ring.books->sums, job->counters()[Counter::kResults]);
  }
  const bool is_intact_foreign = packet.origin.slot == kForeign && !packet.origin.altered;
  if (is_intact_foreign && !sender.has_sent_only(packet.view())) {
    broken_ = "a frame that is not the ring's did not pass as it was";
  }
}

std::optional<Protocol::Description> RingProtocol::describe(const Packet& packet) const {
  if (packet.origin.slot == kForeign) return Description{Trace::kEverySlot, "a foreign frame"};
  const std::optional<roce::RoceFrame> read = read_sent(packet);
  if (!read || !read->is_intact()) return std::nullopt;
  const bool is_data = packet.origin.maker == Origin::Maker::kWorker && roce::is_write(read->packet.headers.opcode);
  return Description{
      is_data ? packet.origin.slot : Trace::kEverySlot,
      (is_data ? "epoch " + std::to_string(packet.origin.epoch) + ", " : "") + to_string(read->packet.headers)};
}

}  // namespace

std::unique_ptr<Protocol> make_ring_protocol(Random& random, const Nodes& nodes) {
  return std::make_unique<RingProtocol>(random, nodes);
}

}  // namespace jaxina::sim
