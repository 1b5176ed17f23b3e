// Sums of known inputs, and what they must be.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "rdma_engine/sim/narrow_sum.h"
#include "tests/verbs/guest_workers.h"

namespace jaxina::guest {

// Returns an input element: a small whole number. In 32 bits, sums of these are exact in any order. So a result is
// either right or wrong, bit for bit.
inline float element(std::uint32_t worker, std::size_t i) {
  return static_cast<float>(static_cast<std::int32_t>((i * 2654435761u + worker * 40503u) >> 8 & 0xfff) - 2048);
}

class Sum {
 public:
  Sum(std::uint32_t workers, std::size_t count, numerics::WireWord word = numerics::WireWord::kInt32,
      numerics::Rounding rounding = {})
      : word_(word), rounding_(rounding), inputs_(workers), outputs_(workers, std::vector<float>(count, -1)) {
    for (std::uint32_t w = 0; w < workers; ++w) {
      inputs_[w].resize(count);
      for (std::size_t i = 0; i < count; ++i) inputs_[w][i] = element(w, i);
    }
  }
  void submit(std::uint32_t worker, Endpoint& endpoint) {
    Tensor tensor{ElementType::kFloat32, inputs_[worker].size(), inputs_[worker].data(), outputs_[worker].data()};
    tensor.word = word_;
    Collective collective{.tensors = {tensor}};
    collective.rounding = rounding_;
    endpoint.worker().submit(std::move(collective));
  }
  // Returns how many elements are not what they must be.
  std::size_t wrong() const {
    const std::vector<float> sum = word_ == numerics::WireWord::kInt32 ? exact() : narrow();
    std::size_t count = 0;
    for (const auto& output : outputs_) count += different(output, sum);
    return count;
  }
  // Of the elements that one worker got.
  std::size_t wrong_of(std::uint32_t worker) const { return different(outputs_[worker], exact()); }
  std::size_t bytes() const { return inputs_.size() * inputs_[0].size() * sizeof(float); }

 private:
  static std::size_t different(const std::vector<float>& output, const std::vector<float>& sum) {
    std::size_t count = 0;
    for (std::size_t i = 0; i < sum.size(); ++i) count += output[i] != sum[i];
    return count;
  }
  std::vector<float> exact() const {
    std::vector<float> sum(inputs_[0].size());
    for (const auto& input : inputs_) {
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += input[i];
    }
    return sum;
  }
  std::vector<float> narrow() const {
    sim::NarrowSum form{.bits = word_ == numerics::WireWord::kInt8 ? 8 : 16, .block_size = kBlockSize};
    if (rounding_.stochastic) form.seed = rounding_.seed;
    std::vector<sim::Words> words;
    for (const auto& input : inputs_) {
      words.emplace_back();
      for (const float x : input) words.back().push_back(std::bit_cast<std::uint32_t>(x));
    }
    std::vector<float> sum;
    for (const std::uint32_t bits : sim::expected_narrow_sum(words, form)) sum.push_back(std::bit_cast<float>(bits));
    return sum;
  }

  numerics::WireWord word_;
  numerics::Rounding rounding_;
  std::vector<std::vector<float>> inputs_, outputs_;
};

}  // namespace jaxina::guest
