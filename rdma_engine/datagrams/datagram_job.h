// DatagramJob: one job whose workers speak datagrams, with its aggregator, its secret and the addresses of its workers.
// It may be constructed and destroyed on any thread, because a large pool takes time to allocate. The thread that
// serves the job only adds and removes it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "rdma_engine/aggregator/aggregator.h"
#include "rdma_engine/base/address.h"
#include "rdma_engine/shape/job_spec.h"

namespace jaxina {

// The switches that may combine a job's updates on their way here. kCombined packets count only from them.
struct CombiningSwitches {
  std::vector<WorkerSet> groups;  // the workers of each group, by number; none is empty
  std::vector<Address> addresses;
};

class DatagramJob {
 public:
  DatagramJob(const JobSpec& spec, const Shard& shard, const CombiningSwitches& switches = {},
              const numerics::Codec& codec = numerics::codec())
      : id_(spec.job),
        secret_(spec.secret),
        switches_(switches),
        aggregator_(spec.shape, options(spec, shard), codec),
        workers_(spec.shape.workers()),
        all_heard_in_(switches.groups.size()) {
    receivers_.reserve(workers_.size());
  }

  static std::size_t bytes_for(const JobSpec& spec, const Shard& shard) {
    return Aggregator::bytes_for(spec.shape, options(spec, shard)) + spec.shape.workers() * sizeof(WorkerContact);
  }

  // What we know of a worker from its latest counted update. `address` is where that update came from; replayed packets
  // do not count, so they cannot divert results. `slot` is that update's slot: it tells the worker which of several
  // switch threads is speaking. The address is empty until the first counted update.
  struct WorkerContact {
    Address address;
    std::uint16_t slot = 0;
  };

  std::uint32_t id() const { return id_; }
  std::uint64_t secret() const { return secret_; }
  // The workers whose sum a kCombined packet from there may carry; null if it may not come.
  const WorkerSet* group(std::uint16_t sender, const Address& from) const {
    const std::size_t number = static_cast<std::size_t>(sender - wire::kFirstGroup);
    const auto& known = switches_.addresses;
    const auto is_sender = [&](const Address& address) { return same_peer(address, from); };
    const bool trusted = sender >= wire::kFirstGroup && number < switches_.groups.size() &&
                         std::any_of(known.begin(), known.end(), is_sender);
    return trusted ? &switches_.groups[number] : nullptr;
  }
  Aggregator& aggregator() { return aggregator_; }
  const Aggregator& aggregator() const { return aggregator_; }
  // An update of the worker was counted, or a sum of the group.
  void heard_from(std::uint32_t worker, const WorkerContact& contact) {
    if (!combines()) {
      workers_[worker] = contact;
    } else if (workers_[worker].address != contact.address) {
      workers_[worker] = contact;
      update_receivers();
    }
  }
  void heard_from_group(std::uint32_t group, const WorkerContact& contact) {
    if (all_heard_in_[group] == changes_) return;  // each has this contact already
    for (std::uint32_t worker = 0; worker < workers_.size(); ++worker) {
      if (contains(switches_.groups[group], worker)) workers_[worker] = contact;
    }
    update_receivers();
    all_heard_in_[group] = changes_;
  }
  // Where results go. A switch that combines updates is there once; it passes results on to its workers.
  const std::vector<WorkerContact>& receivers() const { return combines() ? receivers_ : workers_; }
  // The value of the overflow counter when the workers were last told of an overflow.
  std::uint64_t& overflows_told() { return overflows_told_; }

 private:
  bool combines() const { return !switches_.addresses.empty(); }
  void update_receivers() {
    receivers_.clear();
    for (const WorkerContact& contact : workers_) {
      const auto same = [&](const WorkerContact& other) { return other.address == contact.address; };
      if (contact.address.size > 0 && std::none_of(receivers_.begin(), receivers_.end(), same)) {
        receivers_.push_back(contact);
      }
    }
    ++changes_;
  }
  static AggregatorOptions options(const JobSpec& spec, const Shard& shard) {
    return {.shard = shard, .headroom = wire::kHeaderSize, .first_epoch = spec.first_epoch};
  }

  std::uint32_t id_;
  std::uint64_t secret_;
  CombiningSwitches switches_;
  Aggregator aggregator_;
  std::vector<WorkerContact> workers_;
  std::vector<WorkerContact> receivers_;     // the different ones of workers_, if switches combine
  std::uint64_t changes_ = 1;                // of workers_
  std::vector<std::uint64_t> all_heard_in_;  // per group: the change after which all its workers had its contact
  std::uint64_t overflows_told_ = 0;
};

}  // namespace jaxina
