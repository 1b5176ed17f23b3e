// What the aggregator said about passes that wait for other workers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace jaxina::udp {

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

  // The workers the pass waits for; empty if nothing was said about it.
  std::vector<std::uint32_t> missing(std::uint16_t slot, std::uint32_t epoch) const {
    std::vector<std::uint32_t> result;
    if (!known_[slot] || epochs_[slot] != epoch) return result;
    for (std::uint32_t worker = 0; worker < workers_; ++worker) {
      if ((seen_[slot * stride_ + worker / 8] >> (worker % 8) & 1) == 0) result.push_back(worker);
    }
    return result;
  }

 private:
  std::uint32_t workers_;
  std::size_t stride_;
  std::vector<std::uint32_t> epochs_;
  std::vector<bool> known_;
  std::vector<std::uint8_t> seen_;
};

}  // namespace jaxina::udp
