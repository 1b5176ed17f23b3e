// PendingPasses: the aggregator's latest pending notice for each slot, to tell a user which workers a pass waits for.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "rdma_engine/worker/worker.h"

namespace jaxina {

class PendingPasses {
 public:
  PendingPasses(std::uint32_t slots, std::uint32_t workers)
      : workers_(workers), stride_((workers + 7) / 8), epochs_(slots), known_(slots), seen_(slots * stride_) {}

  // `bitmap`: bit w of byte w / 8 says that worker w has contributed to the pass.
  void remember(std::uint16_t slot, std::uint32_t epoch, std::span<const std::uint8_t> bitmap) {
    if (slot >= epochs_.size() || bitmap.size() != stride_) return;
    epochs_[slot] = epoch;
    known_[slot] = true;
    std::copy(bitmap.begin(), bitmap.end(), &seen_[slot * stride_]);
  }

  // The workers that have not contributed to the first of these passes that has a pending notice. Empty if none has
  // one.
  std::vector<std::uint32_t> missing(std::span<const Pass> passes) const {
    std::vector<std::uint32_t> result;
    for (const Pass& pass : passes) {
      if (!known_[pass.slot] || epochs_[pass.slot] != pass.epoch) continue;
      for (std::uint32_t worker = 0; worker < workers_; ++worker) {
        if ((seen_[pass.slot * stride_ + worker / 8] >> (worker % 8) & 1) == 0) result.push_back(worker);
      }
      break;
    }
    return result;
  }

 private:
  std::uint32_t workers_;
  std::size_t stride_;
  std::vector<std::uint32_t> epochs_;  // per slot: the pass of the latest notice
  std::vector<bool> known_;
  std::vector<std::uint8_t> seen_;
};

}  // namespace jaxina
