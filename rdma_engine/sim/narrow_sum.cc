#include "rdma_engine/sim/narrow_sum.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace jaxina::sim {
namespace {

float as_float(std::uint32_t bits) { return std::bit_cast<float>(bits); }

// SplitMix64's number `index` for this seed.
std::uint64_t split_mix(std::uint64_t seed, std::uint64_t index) {
  // The state is a counter, so the earlier numbers need not be drawn.
  std::uint64_t result = seed + (index + 1) * 0x9e3779b97f4a7c15;
  result = (result ^ (result >> 30)) * 0xbf58476d1ce4e5b9;
  result = (result ^ (result >> 27)) * 0x94d049bb133111eb;
  return result ^ (result >> 31);
}

// A random number in [0, 1), in steps of 2^-32.
double share(std::uint64_t seed, std::uint64_t index) {
  return std::ldexp(static_cast<double>(split_mix(seed, index) >> 32), -32);
}

struct Element {
  std::size_t position;      // in the tensor
  std::uint64_t random = 0;  // index of its random numbers
};

std::int64_t word_of(float x, int scale, std::int64_t limit, std::optional<double> draw) {
  const double scaled = std::ldexp(double{x}, scale);
  double word = 0;
  if (draw) {
    const double whole = std::floor(std::fabs(scaled));
    // A fraction counts in steps of 2^-32 too.
    const double fraction = std::ldexp(std::floor(std::ldexp(std::fabs(scaled) - whole, 32)), -32);
    word = std::copysign(whole + (*draw < fraction ? 1 : 0), scaled);
  } else {
    word = std::nearbyint(scaled);
  }
  return std::clamp(static_cast<std::int64_t>(word), -limit, limit);
}

std::uint32_t sum_of(const std::vector<Words>& inputs, const NarrowSum& form, const Element& at, int exponent) {
  const std::int64_t limit = (std::int64_t{1} << (form.bits - 1)) - 1;
  const int scale = form.bits - 1 - exponent;
  std::int64_t sum = 0;
  bool nan = false, plus = false, minus = false;
  for (std::size_t w = 0; w < inputs.size(); ++w) {
    const float x = as_float(inputs[w][at.position]);
    if (std::isnan(x)) nan = true;
    else if (std::isinf(x)) (x > 0 ? plus : minus) = true;
    else if (form.seed) sum += word_of(x, scale, limit, share(split_mix(*form.seed, 1 + w), at.random));
    else sum += word_of(x, scale, limit, std::nullopt);
  }
  const float infinity = std::numeric_limits<float>::infinity();
  if (nan || (plus && minus)) return std::bit_cast<std::uint32_t>(std::numeric_limits<float>::quiet_NaN());
  if (plus || minus) return std::bit_cast<std::uint32_t>(plus ? infinity : -infinity);
  int shift = 0;
  while ((std::size_t{1} << shift) < inputs.size()) ++shift;
  const double divided = std::ldexp(static_cast<double>(sum), -shift);
  // With s bits to lose, the s upper bits of the random number decide.
  const double rounded =
      form.seed
          ? std::floor(divided +
                       std::ldexp(std::floor(std::ldexp(share(split_mix(*form.seed, 0), at.random), shift)), -shift))
          : std::nearbyint(divided);
  const auto result = static_cast<std::int64_t>(rounded);  // an integer: there is no -0
  return std::bit_cast<std::uint32_t>(std::ldexp(static_cast<float>(result), shift - scale));
}

}  // namespace

Words expected_narrow_sum(const std::vector<Words>& inputs, const NarrowSum& form) {
  const std::size_t count = inputs[0].size();
  Words result(count);
  for (std::size_t begin = 0; begin < count; begin += form.block_size) {
    const std::size_t end = std::min(count, begin + form.block_size);
    float largest = 0;
    for (const Words& input : inputs) {
      for (std::size_t i = begin; i < end; ++i) {
        if (std::isfinite(as_float(input[i]))) largest = std::max(largest, std::fabs(as_float(input[i])));
      }
    }
    int exponent = -126;
    if (largest > 0) std::frexp(largest, &exponent);
    exponent = std::clamp(exponent, -126, 128);
    const std::uint64_t block = form.first_block + begin / form.block_size;
    for (std::size_t i = begin; i < end; ++i) {
      result[i] = sum_of(inputs, form, {i, block * form.block_size + (i - begin)}, exponent);
    }
  }
  return result;
}

}  // namespace jaxina::sim
