// CombinedJob: one job at a combining switch: its children, its way upstream, and where its workers are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "rdma_engine/aggregator/worker_set.h"
#include "rdma_engine/base/address.h"
#include "rdma_engine/base/assert.h"
#include "rdma_engine/base/counters.h"
#include "rdma_engine/shape/job_shape.h"
#include "rdma_engine/wire/packet.h"

namespace jaxina {

// A sender whose packets a switch combines: a worker, or a switch below it with the sum of a group.
struct Child {
  std::uint16_t sender = 0;  // the `worker` field of its packets: a worker, or kFirstGroup plus a group's number
  WorkerSet workers{};       // whose contributions its packets carry
};

struct CombinedJobSpec {
  std::uint32_t job = 0;
  std::uint64_t secret = 0;
  JobShape shape;
  std::uint32_t group = 0;             // number of the group of all these children, less than wire::kMaxGroups
  std::vector<Child> children = {};    // no worker twice, at most kMaxWorkers
  std::vector<Address> upstream = {};  // slot i goes to upstream[i % size]: servers, or ports of a switch
  // Slots whose numbers are equal modulo this come from one address of each child. A worker has one address, a switch
  // has several.
  std::uint32_t ways = 1;
};

class CombinedJob {
 public:
  explicit CombinedJob(const CombinedJobSpec& spec)
      : spec_(spec), contacts_(spec.children.size() * spec.ways), child_of_worker_(spec.shape.workers(), kNone) {
    JAXINA_ASSERT(spec.group < wire::kMaxGroups && !spec.upstream.empty() && !spec.children.empty() && spec.ways > 0);
    for (std::uint32_t child = 0; child < spec.children.size(); ++child) {
      for (std::uint32_t worker = 0; worker < spec.shape.workers(); ++worker) {
        if (contains(spec.children[child].workers, worker)) child_of_worker_[worker] = child;
      }
    }
  }

  static std::size_t bytes_for(const CombinedJobSpec& spec) {
    return spec.children.size() * (sizeof(Child) + spec.ways * sizeof(Address)) +
           spec.upstream.size() * sizeof(Address);
  }

  const CombinedJobSpec& spec() const { return spec_; }
  std::uint32_t children() const { return static_cast<std::uint32_t>(spec_.children.size()); }
  const Address& upstream(std::uint16_t slot) const { return spec_.upstream[slot % spec_.upstream.size()]; }

  // The index of the child that sends such packets, if there is one.
  std::optional<std::uint32_t> child(std::uint16_t sender) const {
    if (sender < child_of_worker_.size()) {
      const std::uint32_t child = child_of_worker_[sender];
      return child != kNone && spec_.children[child].sender == sender ? std::optional(child) : std::nullopt;
    }
    for (std::uint32_t child = 0; child < children(); ++child) {
      if (spec_.children[child].sender == sender) return child;
    }
    return std::nullopt;
  }
  // The index of the child on the way to a worker, if there is one.
  std::optional<std::uint32_t> way_to(std::uint16_t worker) const {
    const bool known = worker < child_of_worker_.size() && child_of_worker_[worker] != kNone;
    return known ? std::optional(child_of_worker_[worker]) : std::nullopt;
  }
  // Where the child's latest packet of such slots came from that an entry took or that was sent on. Empty until then.
  Address& contact(std::uint32_t child, std::uint16_t slot) {
    return contacts_[child * std::size_t{spec_.ways} + slot % spec_.ways];
  }
  Counters& counters() { return counters_; }
  const Counters& counters() const { return counters_; }
  // The value of the overflow counter when the workers were last told of an overflow.
  std::uint64_t& overflows_told() { return overflows_told_; }

 private:
  static constexpr std::uint32_t kNone = 0xffffffff;
  CombinedJobSpec spec_;
  std::vector<Address> contacts_;
  std::vector<std::uint32_t> child_of_worker_;  // kNone: the worker is not below this switch
  Counters counters_;
  std::uint64_t overflows_told_ = 0;
};

}  // namespace jaxina
