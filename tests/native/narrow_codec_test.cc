// Tests float16 and bfloat16 in every codec variant. They must give the same bits as float32's functions for the
// widened values, rounded by narrow(). numerics_codec_test.cc tests float32's functions against the specification;
// element_codec_test.cc tests widen() and narrow().
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "rdma_engine/numerics/codec.h"
#include "rdma_engine/numerics/narrow_float.h"
#include "tests/native/test_seed.h"

namespace jaxina::numerics {
namespace {

using Bits = std::vector<std::uint16_t>;
using Words = std::vector<std::uint32_t>;

class NarrowCodecTest : public ::testing::TestWithParam<std::tuple<std::string, bool>> {
 protected:
  void SetUp() override {
    codec_ = codec_named(std::get<0>(GetParam()));
    if (codec_ == nullptr) GTEST_SKIP() << "this processor has no " << std::get<0>(GetParam());
    is_float16_ = std::get<1>(GetParam());
    narrow_ = is_float16_ ? &codec_->float16 : &codec_->bfloat16;
    random_.seed(jaxina::testing::test_seed());
  }

  float wide(std::uint16_t bits) const { return is_float16_ ? widen(Float16{bits}) : widen(Bfloat16{bits}); }
  std::uint16_t rounded(float x) const {
    Float16 half;
    Bfloat16 brain;
    narrow(x, half), narrow(x, brain);
    return is_float16_ ? half.bits : brain.bits;
  }
  std::vector<float> widened(const Bits& x) const {
    std::vector<float> result;
    for (const std::uint16_t bits : x) result.push_back(wide(bits));
    return result;
  }
  std::uint16_t infinity() const { return is_float16_ ? 0x7c00 : 0x7f80; }

  // Draws elements with any bit pattern. A third of the blocks is made finite, because random blocks hardly ever are.
  Bits elements(std::size_t count) {
    Bits x(count);
    const bool finite = random_() % 3 == 0;
    for (std::uint16_t& bits : x) {
      do bits = static_cast<std::uint16_t>(random_());
      while (finite && (bits & 0x7fff) >= infinity());
    }
    return x;
  }
  Words words(std::size_t count) {
    Words result(count);
    // Words of every magnitude, so that results are rounded in every way: to subnormals, ties, overflow.
    for (std::uint32_t& word : result) {
      word = static_cast<std::uint32_t>(static_cast<std::int32_t>(random_()) >> random_() % 31);
    }
    return result;
  }
  // Draws an exponent of narrow values, or a bit beyond: then results must be rounded to subnormals or to Inf.
  std::uint8_t exponent() { return static_cast<std::uint8_t>(is_float16_ ? 96 + random_() % 60 : random_() % 255); }

  // An element that is kept, or that is converted in place, becomes a quiet NaN if it was a NaN. Other bits stay.
  std::uint16_t kept(std::uint16_t bits) const { return rounded(wide(bits)); }

  const Codec* codec_ = nullptr;
  const FloatCodec* narrow_ = nullptr;
  bool is_float16_ = false;
  std::mt19937_64 random_;
};

INSTANTIATE_TEST_SUITE_P(Variants, NarrowCodecTest,
                         ::testing::Combine(::testing::Values("scalar", "avx2", "avx512"), ::testing::Bool()),
                         [](const auto& info) {
                           return std::get<0>(info.param) + (std::get<1>(info.param) ? "_float16" : "_bfloat16");
                         });

constexpr std::size_t kCounts[] = {0, 1, 7, 8, 15, 16, 17, 31, 32, 33, 100, 256, 1000};

TEST_P(NarrowCodecTest, ConvertsEveryValue) {
  Bits all(65536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  const std::vector<float> wides = widened(all);
  Words got(all.size()), expected(all.size());
  for (const int e : {0, 1, 100, 112, 127, 142, 200, 254}) {
    const Scale scale = scale_for(3);
    narrow_->quantize(all.data(), all.size(), static_cast<std::uint8_t>(e), scale, Store::kWrite, got.data());
    codec_->float32.quantize(wides.data(), all.size(), static_cast<std::uint8_t>(e), scale, Store::kWrite,
                             expected.data());
    ASSERT_EQ(got, expected) << e;
  }
}

TEST_P(NarrowCodecTest, FindsExponents) {
  for (int turn = 0; turn < 300; ++turn) {
    for (const std::size_t count : kCounts) {
      const Bits x = elements(count);
      const std::vector<float> wides = widened(x);
      ASSERT_EQ(narrow_->exponent(x.data(), count), codec_->float32.exponent(wides.data(), count)) << count;
      ASSERT_EQ(narrow_->finite_exponent(x.data(), count), codec_->float32.finite_exponent(wides.data(), count))
          << count;
    }
  }
}

TEST_P(NarrowCodecTest, QuantizesAndFlags) {
  for (int turn = 0; turn < 100; ++turn) {
    for (const std::size_t count : kCounts) {
      for (const Store store : {Store::kWrite, Store::kAdd, Store::kBigEndian}) {
        const Bits x = elements(count);
        const std::vector<float> wides = widened(x);
        const std::uint8_t e = exponent();
        const Scale scale = scale_for(1 + static_cast<std::uint32_t>(random_() % 1024));
        Words got = words(count + 1), expected = got;  // one word more, to notice writes past the end
        const std::size_t lost = narrow_->quantize(x.data(), count, e, scale, store, got.data());
        ASSERT_EQ(codec_->float32.quantize(wides.data(), count, e, scale, store, expected.data()), lost) << count;
        ASSERT_EQ(got, expected) << count << " " << int(store);
        narrow_->non_finite_flags(x.data(), count, store, got.data());
        codec_->float32.non_finite_flags(wides.data(), count, store, expected.data());
        ASSERT_EQ(got, expected) << count << " " << int(store);
      }
    }
  }
}

TEST_P(NarrowCodecTest, DequantizesAndAppliesFlags) {
  for (int turn = 0; turn < 100; ++turn) {
    for (const std::size_t count : kCounts) {
      for (const Order order : {Order::kHost, Order::kBigEndian}) {
        for (const bool choice : {false, true}) {
          const Words sum = words(count);
          const Bits old = elements(count + 1);
          const std::uint8_t e = exponent();
          const Scale scale = scale_for(1 + static_cast<std::uint32_t>(random_() % 1024));
          std::vector<float> wides(count);
          codec_->float32.dequantize(sum.data(), count, e, scale, order, false, wides.data());
          Bits got = old, expected = old;
          for (std::size_t i = 0; i < count; ++i) {
            const bool keeps = choice && (old[i] & 0x7fff) >= infinity();
            expected[i] = keeps ? kept(old[i]) : rounded(wides[i]);
          }
          narrow_->dequantize(sum.data(), count, e, scale, order, choice, got.data());
          ASSERT_EQ(got, expected) << count << " keep=" << choice;

          wides = widened(old);
          codec_->float32.apply_non_finite_flags(sum.data(), count, order, choice, wides.data());
          for (std::size_t i = 0; i < count; ++i) expected[i] = rounded(wides[i]);
          got = old;
          narrow_->apply_non_finite_flags(sum.data(), count, order, choice, got.data());
          ASSERT_EQ(got, expected) << count << " clear=" << choice;
        }
      }
    }
  }
}

// Writes to memory that is aligned to a cache line, and to memory that is not.
TEST_P(NarrowCodecTest, StreamsAndExchangesAsOneStepAtATime) {
  for (int turn = 0; turn < 200; ++turn) {
    const std::size_t blocks = 1 + random_() % 3, size = kCounts[1 + random_() % (std::size(kCounts) - 1)];
    const std::size_t count = blocks * size;
    const Bits ahead = elements(count), x = elements(count);
    const Words sum = words(count), old_words = words(count);
    std::vector<std::uint8_t> x_exponents(blocks), sum_exponents(blocks), exponents(blocks), old_exponents(blocks);
    for (std::size_t i = 0; i < blocks; ++i) {
      x_exponents[i] = exponent(), sum_exponents[i] = exponent();
      exponents[i] = old_exponents[i] = static_cast<std::uint8_t>(random_());
    }
    const Scale scale = scale_for(1 + static_cast<std::uint32_t>(random_() % 1024));
    const Store store = turn % 2 ? Store::kAdd : Store::kWrite;
    const bool merge = turn % 4 < 2, streaming = turn % 8 < 4;
    Bits memory(count + 64), expected_y(count);
    void* line = memory.data();
    std::size_t room = 2 * memory.size();
    std::align(64, 64, line, room);
    for (const std::size_t offset : {0, 3}) {
      std::uint16_t* y = static_cast<std::uint16_t*>(line) + offset;
      Words got = old_words, expected = old_words;
      exponents = old_exponents;
      narrow_->exchange({blocks, size, ahead.data(), exponents.data(), merge, x.data(), x_exponents.data(), store,
                         got.data(), sum.data(), sum_exponents.data(), streaming, y},
                        scale, scale);
      codec_->end_streaming();
      for (std::size_t i = 0; i < blocks; ++i) {
        const std::size_t first = i * size;
        const std::uint8_t largest = narrow_->exponent(&ahead[first], size);
        ASSERT_EQ(exponents[i], merge ? std::max(old_exponents[i], largest) : largest);
        narrow_->quantize(&x[first], size, x_exponents[i], scale, store, &expected[first]);
        narrow_->dequantize(&sum[first], size, sum_exponents[i], scale, Order::kHost, false, &expected_y[first]);
      }
      ASSERT_EQ(got, expected);
      ASSERT_EQ(std::memcmp(y, expected_y.data(), 2 * count), 0) << offset;
      for (const Order order : {Order::kHost, Order::kBigEndian}) {
        narrow_->dequantize(sum.data(), count, x_exponents[0], scale, order, false, expected_y.data());
        narrow_->dequantize_streaming(sum.data(), count, x_exponents[0], scale, order, y);
        codec_->end_streaming();
        ASSERT_EQ(std::memcmp(y, expected_y.data(), 2 * count), 0) << offset;
      }
    }
  }
}

#if defined(__x86_64__)
// XLA's threads flush subnormals to zero, but the codec must see them all the same.
TEST_P(NarrowCodecTest, SubnormalsCountEvenIfTheThreadFlushesThem) {
  Bits x;
  for (std::uint16_t bits = 1; bits < 128; ++bits) x.push_back(bits);
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | 0x8040);
  const std::uint8_t e = narrow_->exponent(x.data(), x.size());
  Words got(x.size());
  Bits back(x.size());
  narrow_->quantize(x.data(), x.size(), e, scale_for(1), Store::kWrite, got.data());
  narrow_->dequantize(got.data(), x.size(), e, scale_for(1), Order::kHost, false, back.data());
  _mm_setcsr(before);
  EXPECT_EQ(back, x);
}
#endif

}  // namespace
}  // namespace jaxina::numerics
