// Checksums that tell whether the parts of a result belong together. They are linear modulo 2^32: the checksums of an
// aggregator's words are the sums of the checksums of the workers' words. So each worker appends its checksums as
// words, the aggregator adds them like all words, and the receiver of the result compares.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace jaxina::numerics {

struct LinearSums {
  std::uint32_t plain = 0;     // sum of all words
  std::uint32_t weighted = 0;  // sum of word i times (c - i), where c depends on the count alone
  bool operator==(const LinearSums&) const = default;
};

// Computes the checksums of words in host order with two additions per word: sums of running sums give the weights
// (Fletcher, 1982).
inline LinearSums linear_sums(const std::uint32_t* words, std::size_t count) {
  constexpr std::size_t kLanes = 16;
  std::array<std::uint32_t, kLanes> plain{}, running{};
  const auto add = [&](const std::uint32_t* row) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      plain[lane] += row[lane];
      running[lane] += plain[lane];
    }
  };
  std::size_t done = 0;
  for (; done + kLanes <= count; done += kLanes) add(words + done);
  if (done < count) {
    std::array<std::uint32_t, kLanes> rest{};
    for (std::size_t i = done; i < count; ++i) rest[i - done] = words[i];
    add(rest.data());
  }
  LinearSums sums;
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    sums.plain += plain[lane];
    sums.weighted += std::uint32_t{kLanes} * running[lane] - lane * plain[lane];
  }
  return sums;
}

}  // namespace jaxina::numerics
