// DatagramJob: one job whose workers speak datagrams, with its aggregator, its secret and the addresses of its workers.
// It may be constructed and destroyed on any thread, because a large pool takes time to allocate. The thread that
// serves the job only adds and removes it.
#pragma once

#include <cstdint>
#include <vector>

#include "rdma_engine/aggregator/aggregator.h"
#include "rdma_engine/base/address.h"
#include "rdma_engine/shape/job_spec.h"

namespace jaxina {

class DatagramJob {
 public:
  DatagramJob(const JobSpec& spec, const Shard& shard, const numerics::Codec& codec = numerics::codec())
      : id_(spec.job),
        secret_(spec.secret),
        aggregator_(spec.shape, options(spec, shard), codec),
        workers_(spec.shape.workers()) {}

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
  Aggregator& aggregator() { return aggregator_; }
  const Aggregator& aggregator() const { return aggregator_; }
  std::vector<WorkerContact>& workers() { return workers_; }
  // The value of the overflow counter when the workers were last told of an overflow.
  std::uint64_t& overflows_told() { return overflows_told_; }

 private:
  static AggregatorOptions options(const JobSpec& spec, const Shard& shard) {
    return {.shard = shard, .headroom = wire::kHeaderSize, .first_epoch = spec.first_epoch};
  }

  std::uint32_t id_;
  std::uint64_t secret_;
  Aggregator aggregator_;
  std::vector<WorkerContact> workers_;
  std::uint64_t overflows_told_ = 0;
};

}  // namespace jaxina
