// Computes what every transport must return, one element at a time, with functions of the C library such as frexp and
// without the project's code.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace jaxina::testing {

// Returns the sum by the specification, with blocks of `block_size` elements. inputs[w] is worker w's tensor.
inline std::vector<float> all_reduce_reference(const std::vector<std::vector<float>>& inputs, std::size_t block_size) {
  const auto n = static_cast<int>(inputs.size());
  const std::size_t count = inputs[0].size();
  int log2_workers = 0;
  while ((1 << log2_workers) < n) ++log2_workers;
  const double limit = std::floor(2147483647.0 / n);
  std::vector<float> result(count);
  for (std::size_t begin = 0; begin < count; begin += block_size) {
    const std::size_t end = std::min(count, begin + block_size);
    double largest = 0;
    for (const auto& x : inputs) {
      for (std::size_t i = begin; i < end; ++i) {
        if (std::isfinite(x[i])) largest = std::max(largest, std::fabs(static_cast<double>(x[i])));
      }
    }
    int m = -126;
    if (largest > 0) std::frexp(largest, &m);
    m = std::clamp(m, -126, 128);
    const int s = 31 - log2_workers - m;
    for (std::size_t i = begin; i < end; ++i) {
      std::int64_t sum = 0;
      bool nan = false, plus = false, minus = false;
      for (const auto& x : inputs) {
        nan |= std::isnan(x[i]);
        plus |= std::isinf(x[i]) && x[i] > 0;
        minus |= std::isinf(x[i]) && x[i] < 0;
        if (std::isfinite(x[i])) {
          sum += static_cast<std::int64_t>(
              std::clamp(std::nearbyint(std::ldexp(static_cast<double>(x[i]), s)), -limit, limit));
        }
      }
      const float inf = std::numeric_limits<float>::infinity();
      if (nan || (plus && minus)) result[i] = std::numeric_limits<float>::quiet_NaN();
      else if (plus || minus) result[i] = plus ? inf : -inf;
      else result[i] = std::ldexp(static_cast<float>(sum), -s);
    }
  }
  return result;
}

// Returns values of very different magnitudes, with some blocks of zeros.
inline std::vector<float> random_gradient(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> x(count);
  float scale = 1;
  for (std::size_t i = 0; i < count; ++i) {
    if (i % 300 == 0) scale = std::ldexp(1.0f, static_cast<int>(random() % 60) - 40) * (random() % 8 != 0);
    x[i] = scale * normal(random);
  }
  return x;
}

// Whether two floats have equal bits. All NaNs are equal here.
inline bool same(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) || std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

}  // namespace jaxina::testing
