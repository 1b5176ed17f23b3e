// LossFilter: drops a share of packets on purpose, for experiments and tests. The same seed drops the same packets.
#pragma once

#include <cstdint>

namespace jaxina::net {

class LossFilter {
 public:
  LossFilter(double share, std::uint64_t seed)
      : state_(seed), threshold_(share >= 1 ? kRange : static_cast<std::uint64_t>(share * kRange)) {}

  bool drops() { return threshold_ > 0 && next() < threshold_; }

 private:
  static constexpr std::uint64_t kRange = std::uint64_t{1} << 53;

  // SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014), reduced to 53 bits.
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return (z ^ z >> 31) >> 11;
  }

  std::uint64_t state_;
  std::uint64_t threshold_;
};

}  // namespace jaxina::net
