// A sample tells a magnitude that a few more values reach than are wanted. One pass collects those that reach it, and
// they alone are sorted. If too few reach it, all that are not zero are collected. So the sample decides how long it
// takes, and never the result.
#include "rdma_engine/numerics/top_k.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "rdma_engine/base/assert.h"
#include "rdma_engine/errors.h"
#include "rdma_engine/numerics/split_mix.h"

namespace jaxina::numerics {
namespace {

// Keys order values by magnitude, the largest first: what is left of a float's bits below the sign, inverted.
using Key = std::uint32_t;
constexpr Key kZero = 0x7fffffff;
constexpr Key kSmallest = kZero - 1;  // of those that are not zero

Key key_of(float value) { return ~std::bit_cast<std::uint32_t>(value) & kZero; }

struct Candidate {
  Key key;
  std::int32_t index;
};
using Candidates = std::vector<Candidate>;

// Returns a key that a little more than `count` of the values are expected not to exceed, at most kSmallest.
Key estimate(std::span<const float> values, std::size_t count) {
  constexpr std::size_t kLargestSample = 1024;
  const std::size_t size = std::min(kLargestSample, values.size() / 8);
  if (size == 0) return kSmallest;
  const double expected = static_cast<double>(count) * static_cast<double>(size) / static_cast<double>(values.size());
  // Three standard deviations above, since collecting again costs more than a few candidates in excess.
  const auto rank = static_cast<std::size_t>(expected + 3 * std::sqrt(expected) + 2);
  if (rank >= size) return kSmallest;
  std::array<Key, kLargestSample> sample;
  // One from each stretch, at a random place, so that values that repeat in a pattern do not mislead.
  const std::size_t stretch = values.size() / size;
  for (std::size_t i = 0; i < size; ++i) sample[i] = key_of(values[i * stretch + random64(0, i) % stretch]);
  std::nth_element(sample.begin(), sample.begin() + rank, sample.begin() + size);
  return std::min(sample[rank], kSmallest);
}

// Returns the values whose keys are at most `last`, which is at most kSmallest, in the order of their indices.
Candidates collect(std::span<const float> values, Key last, std::size_t expected) {
  constexpr std::size_t kTogether = 32;  // few values are candidates, so many are dismissed at once
  Candidates found;
  found.reserve(expected);
  const auto add = [&](std::size_t i) {
    if (const Key key = key_of(values[i]); key <= last) found.push_back({key, static_cast<std::int32_t>(i)});
  };
  std::size_t i = 0;
  for (; i + kTogether <= values.size(); i += kTogether) {
    std::int32_t any = 0;  // negative if a key is below the end
    const auto end = static_cast<std::int32_t>(last + 1);
    for (std::size_t j = 0; j < kTogether; ++j) any |= static_cast<std::int32_t>(key_of(values[i + j])) - end;
    if (any < 0) {
      for (std::size_t j = 0; j < kTogether; ++j) add(i + j);
    }
  }
  for (; i < values.size(); ++i) add(i);
  return found;
}

// Sorts by key. Candidates of one key stay in the order of their indices.
void sort(Candidates& candidates) {
  constexpr std::size_t kFew = 256;
  if (candidates.size() < kFew) {
    std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
      return a.key != b.key ? a.key < b.key : a.index < b.index;
    });
    return;
  }
  // By radix, from the lowest digit on.
  constexpr int kDigits = 3, kBits = 11;
  constexpr Key kDigit = (1 << kBits) - 1;
  std::array<std::array<std::size_t, kDigit + 1>, kDigits> places{};
  for (const Candidate& candidate : candidates) {
    for (int d = 0; d < kDigits; ++d) ++places[d][candidate.key >> (kBits * d) & kDigit];
  }
  for (auto& of_digit : places) {
    std::size_t before = 0;
    for (std::size_t& place : of_digit) before += std::exchange(place, before);
  }
  Candidates sorted(candidates.size());
  for (int d = 0; d < kDigits; ++d) {
    for (const Candidate& candidate : candidates)
      sorted[places[d][candidate.key >> (kBits * d) & kDigit]++] = candidate;
    candidates.swap(sorted);
  }
}

}  // namespace

void top_k(std::span<const float> values, std::span<std::int32_t> chosen) {
  if (chosen.size() > values.size() || values.size() > std::numeric_limits<std::int32_t>::max()) {
    throw Error(ErrorCode::kInvalidArgument, "cannot choose " + std::to_string(chosen.size()) + " of " +
                                                 std::to_string(values.size()) +
                                                 " values: more than there are, or there are more than 2^31 - 1");
  }
  const Key last = estimate(values, chosen.size());
  Candidates found = collect(values, last, 2 * chosen.size());
  if (found.size() < chosen.size() && last != kSmallest) found = collect(values, kSmallest, values.size());
  sort(found);
  const std::size_t count = std::min(found.size(), chosen.size());
  for (std::size_t i = 0; i < count; ++i) chosen[i] = found[i].index;
  // What is still missing are zeros.
  for (std::size_t i = 0, next = count; next < chosen.size(); ++i) {
    JAXINA_ASSERT(i < values.size());
    if (key_of(values[i]) == kZero) chosen[next++] = static_cast<std::int32_t>(i);
  }
}

}  // namespace jaxina::numerics
