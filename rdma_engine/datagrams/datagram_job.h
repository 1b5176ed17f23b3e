// DatagramJob: one job whose workers speak datagrams, with its aggregator, its secret and the addresses of its workers.
// It may be constructed and destroyed on any thread, because a large pool takes time to allocate. The thread that
// serves the job only adds and removes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "rdma_engine/aggregator/aggregator.h"
#include "rdma_engine/base/address.h"
#include "rdma_engine/datagrams/worker_contacts.h"
#include "rdma_engine/shape/job_spec.h"

namespace jaxina {

// The switches that may combine a job's updates on their way here. kCombined packets count only from them.
struct CombiningSwitches {
  std::vector<WorkerSet> groups;   // the workers of each group, by number; none is empty
  std::vector<Address> addresses;  // slot i comes through addresses[i % size]
};

class DatagramJob {
 public:
  DatagramJob(const JobSpec& spec, const Shard& shard, const CombiningSwitches& switches = {},
              const numerics::Codec& codec = numerics::codec())
      : id_(spec.job),
        secret_(spec.secret),
        writes_crc_(!spec.key),
        switches_(switches.addresses),
        aggregator_(spec.shape, options(spec, shard), codec),
        contacts_(spec.shape.workers(), switches.groups, switches.addresses.size()),
        came_directly_(spec.shape.slots()) {}

  static std::size_t bytes_for(const JobSpec& spec, const Shard& shard, const CombiningSwitches& switches = {}) {
    return Aggregator::bytes_for(spec.shape, options(spec, shard)) + spec.shape.slots() +
           WorkerContacts::bytes_for(spec.shape.workers(), switches.addresses.size());
  }

  std::uint32_t id() const { return id_; }
  std::uint64_t secret() const { return secret_; }
  // Whether its results have a CRC. They need none if they are encrypted.
  bool writes_crc() const { return writes_crc_; }
  // The workers whose sum a kCombined packet of the slot may carry; null if it may not come from there.
  const WorkerSet* group(std::uint16_t sender, std::uint16_t slot, const Address& from) const {
    const std::size_t number = static_cast<std::size_t>(sender - wire::kFirstGroup);
    const std::vector<WorkerSet>& groups = contacts_.groups();
    const Address* nearest = switch_of(slot);
    const bool trusted =
        sender >= wire::kFirstGroup && number < groups.size() && nearest != nullptr && same_peer(*nearest, from);
    return trusted ? &groups[number] : nullptr;
  }
  // The switch nearest to us that the slot's updates may come through; null if there is none.
  const Address* switch_of(std::uint16_t slot) const {
    return switches_.empty() ? nullptr : &switches_[slot % switches_.size()];
  }
  Aggregator& aggregator() { return aggregator_; }
  const Aggregator& aggregator() const { return aggregator_; }
  WorkerContacts& contacts() { return contacts_; }
  // The value of the overflow counter when the workers were last told of an overflow.
  std::uint64_t& overflows_told() { return overflows_told_; }
  // Whether an update has come with a mark since the job's last result.
  bool& marked() { return marked_; }
  // Whether an update of the slot's pass has come past the switches.
  std::uint8_t& came_directly(std::uint16_t slot) { return came_directly_[slot]; }

 private:
  static AggregatorOptions options(const JobSpec& spec, const Shard& shard) {
    return {.shard = shard, .headroom = wire::kHeaderSize, .first_epoch = spec.first_epoch};
  }

  std::uint32_t id_;
  std::uint64_t secret_;
  bool writes_crc_;
  std::vector<Address> switches_;
  Aggregator aggregator_;
  WorkerContacts contacts_;
  std::uint64_t overflows_told_ = 0;
  bool marked_ = false;
  std::vector<std::uint8_t> came_directly_;  // by slot
};

}  // namespace jaxina
