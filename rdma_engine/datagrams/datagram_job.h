// One job whose workers speak datagrams: its aggregator, its secret, and where its workers are. It may be made and
// destroyed on any thread, because a large pool takes its time; the thread that serves it only takes it in and gives it
// back.
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
    return Aggregator::bytes_for(spec.shape, options(spec, shard)) + spec.shape.workers() * sizeof(Heard);
  }

  // Where a worker's latest counted update came from, so that replays divert nothing, and its slot, by which a worker
  // knows which of several switch threads may speak to it. The address is empty until then.
  struct Heard {
    Address address;
    std::uint16_t slot = 0;
  };

  std::uint32_t id() const { return id_; }
  std::uint64_t secret() const { return secret_; }
  Aggregator& aggregator() { return aggregator_; }
  const Aggregator& aggregator() const { return aggregator_; }
  std::vector<Heard>& workers() { return workers_; }
  // How often the receive buffer had overflowed when the workers were last told.
  std::uint64_t& overflows_told() { return overflows_told_; }

 private:
  static AggregatorOptions options(const JobSpec& spec, const Shard& shard) {
    return {.shard = shard, .headroom = wire::kHeaderSize, .first_epoch = spec.first_epoch};
  }

  std::uint32_t id_;
  std::uint64_t secret_;
  Aggregator aggregator_;
  std::vector<Heard> workers_;
  std::uint64_t overflows_told_ = 0;
};

}  // namespace jaxina
