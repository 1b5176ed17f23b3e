// NarrowRounding: by how many bits sums of narrow words are divided, and which random numbers round them. Words are
// encoded, added and divided by the processor or by devices, which must agree.
//
// Random numbers do not depend on slots, chunks, transports or the order of arrival. An element's random number follows
// from the collective's seed, from the device, process or sum that is rounded, and from the element's place among the
// collective's narrow blocks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rdma_engine/numerics/stochastic_rounding.h"
#include "rdma_engine/shape/job_shape.h"
#include "rdma_engine/worker/layout.h"

namespace jaxina {

class NarrowRounding {
 public:
  // `worker`: this worker's index. All workers must have different ones, or their random numbers are equal.
  NarrowRounding(const JobShape& shape, std::uint32_t worker)
      : block_size_(shape.block_size()),
        worker_(worker),
        process_shift_(numerics::log2_of(shape.devices_per_worker())),
        sum_shift_(numerics::log2_of(shape.workers())) {}

  // By how many bits a process divides the sum of its devices' words, and the aggregator that of the processes' words.
  std::uint32_t process_shift() const { return static_cast<std::uint32_t>(process_shift_); }
  std::uint32_t sum_shift() const { return static_cast<std::uint32_t>(sum_shift_); }
  // The scale of a device's words, and that of the words of a sum.
  static numerics::Scale encode_scale(numerics::WireWord word) { return numerics::narrow_scale(word, 0); }
  numerics::Scale decode_scale(numerics::WireWord word) const {
    return numerics::narrow_scale(word, process_shift_ + sum_shift_);
  }

  // How the words of one of this process's devices, of the process, or of the sum are rounded: element i of the block
  // takes the random number of (seed, i). Elements of the same tensor's next blocks follow.
  numerics::Rounding of_device(const Layout& layout, std::size_t device, const Block& block) const {
    return rounding(layout, 1 + std::uint64_t{worker_} * layout.devices() + device, block);
  }
  numerics::Rounding of_process(const Layout& layout, const Block& block) const {
    return rounding(layout, (std::uint64_t{1} << 32) + worker_, block);
  }
  numerics::Rounding of_sum(const Layout& layout, const Block& block) const { return rounding(layout, 0, block); }

 private:
  // `stream`: which of the collective's streams of random numbers.
  numerics::Rounding rounding(const Layout& layout, std::uint64_t stream, const Block& block) const {
    const numerics::Rounding& rounding = layout.rounding();
    if (!rounding.stochastic) return {};
    return {true, numerics::seed_from(numerics::random64(rounding.seed, stream), block.number * block_size_)};
  }

  std::uint64_t block_size_;
  std::uint32_t worker_;
  std::int32_t process_shift_, sum_shift_;
};

}  // namespace jaxina
