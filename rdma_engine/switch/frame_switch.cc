#include "rdma_engine/switch/frame_switch.h"

#include <netinet/in.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <string>
#include <utility>

#include "rdma_engine/net/socket_address.h"
#include "rdma_engine/netreduce/ring_racks.h"

namespace jaxina {
namespace {

constexpr std::chrono::seconds kPatience{5};

std::array<std::uint8_t, 4> ip_of(const roce::ConnectionEnd& end) {
  const Address address = net::from_ipv4(end.address, end.udp_port);
  std::array<std::uint8_t, 4> ip;
  std::memcpy(ip.data(), &address.bytes[offsetof(sockaddr_in, sin_addr)], ip.size());
  return ip;
}

netreduce::RingSpec ring_of(std::uint32_t job, const JobShape& shape, std::span<const roce::ConnectionEnd> ends) {
  netreduce::RingSpec spec{.job = job, .shape = shape, .mtu = 0, .members = {}};
  for (std::size_t worker = 0; worker < ends.size(); ++worker) {
    const roce::ConnectionEnd &own = ends[worker], &next = ends[(worker + 1) % ends.size()];
    if (own.qpns.size() != 2) {
      throw Error(ErrorCode::kInvalidArgument,
                  "a worker in a ring has two queue pairs, not " + std::to_string(own.qpns.size()));
    }
    spec.mtu = own.mtu;
    spec.members.push_back({.source = ip_of(own),
                            .destination = ip_of(next),
                            .port = next.udp_port,
                            .qpn = next.qpns[1],
                            .first_psn = own.psn,
                            .rkey = next.rkey,
                            .memory = next.memory});
  }
  spec.check();
  return spec;
}

// What a switch at this place sees of a ring.
netreduce::RingSpec part_of(const netreduce::RingSpec& ring, const RingRacks& racks) {
  const auto& of_worker = racks.of_worker;
  const bool has_several =
      std::adjacent_find(of_worker.begin(), of_worker.end(), std::not_equal_to<>()) != of_worker.end();
  if (of_worker.empty() || (racks.own && !has_several && of_worker.front() == *racks.own)) return ring;
  const auto refuse = [](const std::string& why) { throw Error(ErrorCode::kInvalidArgument, why); };
  if (of_worker.size() != ring.members.size()) refuse("each worker of a ring is in one rack");
  if (!has_several) refuse("all workers of the ring are in one rack, whose switch adds alone");
  netreduce::RackedRing racked = netreduce::cut_by_rack(ring, of_worker);
  if (!racks.own) return racked.spine;
  const auto leaf = racked.leaves.find(*racks.own);
  if (leaf == racked.leaves.end()) refuse("no worker of the ring is in rack " + std::to_string(*racks.own));
  return leaf->second;
}

}  // namespace

FrameSwitch::FrameSwitch(const std::vector<std::string>& interfaces)
    : engine_(interfaces), thread_(std::make_unique<DataThread>(engine_)) {}

template <typename Command>
auto FrameSwitch::on_thread(Command command) {
  if (!thread_) throw Error(ErrorCode::kShutDown, "the switch was stopped");
  auto future = thread_->post(std::move(command));
  if (future.wait_for(kPatience) == std::future_status::ready) return future.get();
  throw Error(ErrorCode::kSystem, "the switch's thread does not answer");
}

void FrameSwitch::add_ring(std::uint32_t job, const JobShape& shape, std::span<const roce::ConnectionEnd> ends,
                           const RingRacks& racks) {
  netreduce::RingSpec spec = part_of(ring_of(job, shape, ends), racks);
  const std::size_t bytes = netreduce::RingJob::bytes_for(spec);
  const std::lock_guard guard(mutex_);
  room_.check(job, bytes);
  const bool is_added = on_thread([this, spec = std::move(spec)] { return engine_.rings().add(spec) != nullptr; });
  if (!is_added) {
    throw Error(ErrorCode::kJobRejected,
                "the switch has one of the connections of job " + std::to_string(job) + " in another job");
  }
  room_.take(job, bytes);
}

std::size_t FrameSwitch::ring_bytes(const JobShape& shape, std::span<const roce::ConnectionEnd> ends,
                                    const RingRacks& racks) {
  return netreduce::RingJob::bytes_for(part_of(ring_of(0, shape, ends), racks));
}

void FrameSwitch::remove_ring(std::uint32_t job) {
  const std::lock_guard guard(mutex_);
  room_.give_back(job);
  on_thread([this, job] { engine_.rings().remove(job); });
}

void FrameSwitch::stop() {
  const std::lock_guard guard(mutex_);
  thread_.reset();
}

SwitchCounters FrameSwitch::statistics() {
  const std::lock_guard guard(mutex_);
  return on_thread([this] {
    SwitchCounters counters;
    engine_.count(counters);
    return counters;
  });
}

}  // namespace jaxina
