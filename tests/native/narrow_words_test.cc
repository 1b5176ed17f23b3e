// Tests the codecs' functions for words of 8 and 16 bits in every variant, against formulas for single values.
// tests/python/test_narrow_words.py compares whole sums with the NumPy reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "rdma_engine/numerics/codec.h"
#include "rdma_engine/numerics/stochastic_rounding.h"
#include "tests/native/test_seed.h"

namespace jaxina::numerics {
namespace {

using Words = std::vector<std::uint32_t>;

constexpr std::uint32_t kGuard = 0xdecafbad;
constexpr WireWord kNarrow[] = {WireWord::kInt8, WireWord::kInt16};

class NarrowWordsTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    codec_ = codec_named(GetParam());
    if (codec_ == nullptr) GTEST_SKIP() << "this processor has no " << GetParam();
    random_.seed(jaxina::testing::test_seed());
  }
  std::int32_t below(std::int32_t bound) { return static_cast<std::int32_t>(random_() % static_cast<unsigned>(bound)); }
  Words drawn(std::size_t count, std::int32_t limit) {
    Words words(count);
    for (auto& word : words) word = static_cast<std::uint32_t>(below(2 * limit + 1) - limit);
    return words;
  }
  static std::int32_t limit_of(WireWord word) { return (1 << (bits_of(word) - 1)) - 1; }

  const Codec* codec_ = nullptr;
  std::mt19937_64 random_;
};

TEST_P(NarrowWordsTest, PackedWordsAreInNetworkOrderAndComeBack) {
  for (const WireWord word : kNarrow) {
    const auto bytes = static_cast<std::size_t>(word);
    for (const std::size_t count : {0, 1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 255, 256, 1000}) {
      const Words words = drawn(count, limit_of(word));
      Words packed(packed_size(count, word) + 1, kGuard);
      codec_->pack(words.data(), count, word, packed.data());
      EXPECT_EQ(packed.back(), kGuard);
      const auto* byte = reinterpret_cast<const std::uint8_t*>(packed.data());
      for (std::size_t i = 0; i < count; ++i) {
        for (std::size_t b = 0; b < bytes; ++b) {
          ASSERT_EQ(byte[i * bytes + b], static_cast<std::uint8_t>(words[i] >> (8 * (bytes - 1 - b)))) << i;
        }
      }
      for (std::size_t b = count * bytes; b < 4 * (packed.size() - 1); ++b)
        ASSERT_EQ(byte[b], 0) << "the last word's rest";

      Words back(count + 1, kGuard), sums = drawn(count + 1, 1 << 20);
      const Words before = sums;
      codec_->unpack(packed.data(), count, word, false, back.data());
      codec_->unpack(packed.data(), count, word, true, sums.data());
      EXPECT_EQ(back[count], kGuard);
      EXPECT_EQ(sums[count], before[count]);
      for (std::size_t i = 0; i < count; ++i) {
        ASSERT_EQ(back[i], words[i]);
        ASSERT_EQ(sums[i], before[i] + words[i]);
      }
    }
  }
}

TEST_P(NarrowWordsTest, SumsAreDividedToTheNearestWithTiesToEven) {
  for (std::uint32_t shift = 0; shift <= 10; ++shift) {
    Words sums = drawn(1000, 1 << 25);
    for (std::int32_t tie = -9; tie <= 9; ++tie) sums.push_back(static_cast<std::uint32_t>(tie * (1 << shift) / 2));
    const Words before = sums;
    codec_->shift(sums.data(), sums.size(), shift, {});
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const double exact =
          std::ldexp(static_cast<double>(static_cast<std::int32_t>(before[i])), -static_cast<int>(shift));
      ASSERT_EQ(static_cast<std::int32_t>(sums[i]), std::nearbyint(exact)) << exact;
    }
  }
}

TEST_P(NarrowWordsTest, SumsAreDividedAtRandomWithoutBias) {
  constexpr std::uint32_t kShift = 3;
  constexpr int kDraws = 4000;
  std::vector<double> means(64);
  for (int draw = 0; draw < kDraws; ++draw) {
    Words sums;
    for (std::int32_t i = 0; i < 64; ++i) sums.push_back(static_cast<std::uint32_t>(i - 32));
    const std::uint64_t seed = random_();
    codec_->shift(sums.data(), sums.size(), kShift, {true, seed});
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const auto got = static_cast<std::int32_t>(sums[i]);
      const auto add = static_cast<std::int32_t>(random_word(seed, i) >> (32 - kShift));
      ASSERT_EQ(got, static_cast<std::int32_t>(
                         std::floor(std::ldexp(static_cast<double>(static_cast<int>(i) - 32 + add), -3))));
      means[i] += static_cast<double>(got) / kDraws;
    }
  }
  // A word is one of two neighbours, so its variance is at most 1/4. 64 means within 6 standard errors.
  for (std::size_t i = 0; i < means.size(); ++i) {
    EXPECT_NEAR(means[i], (static_cast<double>(i) - 32) / 8, 6 * 0.5 / std::sqrt(kDraws)) << i;
  }
}

TEST_P(NarrowWordsTest, ASeedCanBeAdvanced) {
  Words whole = drawn(300, 1 << 20), part(whole.begin() + 77, whole.end());
  codec_->shift(whole.data(), whole.size(), 4, {true, 11});
  codec_->shift(part.data(), part.size(), 4, {true, seed_from(11, 77)});
  EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + 77));
}

// What stochastic_rounding.h says, in doubles, which are exact here.
std::int32_t rounded_at_random(double exact, std::uint32_t random, std::int32_t limit) {
  const double magnitude = std::abs(exact), whole = std::floor(magnitude);
  const bool up = static_cast<double>(random) < std::floor(std::ldexp(magnitude - whole, 32));
  const double word = std::min(whole + (up ? 1 : 0), static_cast<double>(limit));
  return static_cast<std::int32_t>(exact < 0 ? -word : word);
}

TEST_P(NarrowWordsTest, QuantizingAtRandomAddsOrWrites) {
  std::normal_distribution<float> normal;
  std::vector<float> x(500);
  for (float& value : x) value = normal(random_);
  x[3] = std::numeric_limits<float>::quiet_NaN(), x[4] = -std::numeric_limits<float>::infinity(), x[5] = -0.0f;
  const std::uint8_t own = codec_->float32.finite_exponent(x.data(), x.size());
  for (const WireWord word : kNarrow) {
    // The block's own exponent; one in which most values are clamped, and one in which they do not even fit 32 bits;
    // and one in which most are below 1.
    for (const int exponent : {+own, own - 9, own - 40, own + 20}) {
      const Scale scale = narrow_scale(word, 0);
      Words words(x.size()), sums = drawn(x.size(), 1000);
      const Words before = sums;
      const auto byte = static_cast<std::uint8_t>(exponent);
      codec_->float32.quantize_at_random(x.data(), x.size(), byte, scale, 5, false, words.data());
      codec_->float32.quantize_at_random(x.data(), x.size(), byte, scale, 5, true, sums.data());
      const int power = scale_exponent(byte, scale);
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double exact = std::isfinite(x[i]) ? std::ldexp(static_cast<double>(x[i]), power) : 0;
        ASSERT_EQ(static_cast<std::int32_t>(words[i]), rounded_at_random(exact, random_word(5, i), limit_of(word)))
            << exact;
        ASSERT_EQ(sums[i], before[i] + words[i]);
      }
    }
  }
}

// exchange() with a shift does what quantize, shift and dequantize do.
TEST_P(NarrowWordsTest, AnExchangeDividesTheSum) {
  constexpr std::size_t kBlocks = 3, kSize = 100, kCount = kBlocks * kSize;
  std::normal_distribution<float> normal;
  for (const WireWord word : kNarrow) {
    for (const std::uint32_t shift : {1u, 3u, 10u}) {
      std::vector<float> x(kCount), ahead(kCount), y(kCount), expected_y(kCount);
      for (float& value : x) value = normal(random_);
      for (float& value : ahead) value = normal(random_);
      Words sum = drawn(kCount, limit_of(word) << shift), words(kCount), expected(kCount);
      std::uint8_t exponents[kBlocks] = {}, given[kBlocks] = {127, 128, 129};
      const Scale encode = narrow_scale(word, 0), decode = narrow_scale(word, static_cast<std::int32_t>(shift));
      codec_->float32.exchange({kBlocks, kSize, ahead.data(), exponents, false, x.data(), given, Store::kWrite,
                                words.data(), sum.data(), given, false, y.data(), shift},
                               encode, decode);
      codec_->shift(sum.data(), kCount, shift, {});
      for (std::size_t b = 0; b < kBlocks; ++b) {
        const std::size_t first = b * kSize;
        codec_->float32.quantize(&x[first], kSize, given[b], encode, Store::kWrite, &expected[first]);
        codec_->float32.dequantize(&sum[first], kSize, given[b], decode, Order::kHost, false, &expected_y[first]);
        EXPECT_EQ(exponents[b], codec_->float32.exponent(&ahead[first], kSize));
      }
      EXPECT_EQ(words, expected);
      EXPECT_EQ(y, expected_y);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Codecs, NarrowWordsTest, ::testing::Values("scalar", "avx2", "avx512"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace jaxina::numerics
