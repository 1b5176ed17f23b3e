// Random: the only source of randomness in a simulation.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace jaxina::sim {

// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014). Its state is one
// number, so a seed is all that a replay needs.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
  }
  // In [0, n), for n up to 2^32.
  std::uint64_t below(std::uint64_t n) { return (next() >> 32) * n >> 32; }
  // In [low, high], both inclusive.
  std::int64_t range(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(high - low + 1)));
  }
  // In [low, high), or low if they are equal. The logarithm is uniform, so each order of magnitude is equally likely.
  std::int64_t log_range(std::int64_t low, std::int64_t high) {
    const double exponent = unit() * std::log(static_cast<double>(high) / static_cast<double>(low));
    return static_cast<std::int64_t>(static_cast<double>(low) * std::exp(exponent));
  }
  bool one_in(std::uint64_t n) { return below(n) == 0; }

 private:
  double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }

  std::uint64_t state_;
};

}  // namespace jaxina::sim
