// What the tests of all codec variants share: random inputs, and checks against the specification, which has the same
// bits.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "rdma_engine/numerics/codec.h"
#include "tests/native/codec_reference.h"
#include "tests/native/test_seed.h"

namespace jaxina::numerics::testing {

using Floats = std::vector<float>;
using Words = std::vector<std::uint32_t>;

inline constexpr Store kStores[] = {Store::kWrite, Store::kAdd, Store::kBigEndian};
inline constexpr Order kOrders[] = {Order::kHost, Order::kBigEndian};

class CodecTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    codec_ = codec_named(GetParam());
    if (codec_ == nullptr) GTEST_SKIP() << "this processor has no " << GetParam();
    random_.seed(jaxina::testing::test_seed());
  }

  std::uint32_t word() { return static_cast<std::uint32_t>(random_()); }
  std::uint32_t below(std::uint32_t bound) { return word() % bound; }

  // Draws any float. A tenth of them are NaN, Inf, zero or subnormal.
  float any_float() {
    static const float kSpecial[] = {0.0f,
                                     -0.0f,
                                     kInf,
                                     -kInf,
                                     std::bit_cast<float>(0x7fc00000u),
                                     std::bit_cast<float>(0xffc12345u),
                                     std::bit_cast<float>(0x7f800001u),
                                     std::bit_cast<float>(0xff800001u),
                                     std::bit_cast<float>(1u),
                                     std::bit_cast<float>(0x807fffffu)};
    return below(10) == 0 ? kSpecial[below(std::size(kSpecial))] : std::bit_cast<float>(word());
  }

  // Draws a value that this scale brings close to a decision of rounding or clamping.
  float near_decision(int exponent, std::uint32_t n) {
    const int power = 31 - reference_log2_workers(n) - (exponent - 126);
    const double limit = std::floor(2147483647.0 / n);
    const double integers[] = {0, 1, 2, 3, 0x1p22, 0x1p23, 0x1p23 + 1, limit, limit + 1, limit - 1, limit / 2, 0x1p31};
    double value = integers[below(std::size(integers))] + 0.25 * below(5);
    if (below(2)) value = -value;
    float x = static_cast<float>(std::ldexp(value, -power));
    if (below(4) == 0) x = std::nextafter(x, below(2) ? kInf : -kInf);
    return x;
  }

  Floats floats(std::size_t count) {
    Floats x(count);
    for (float& value : x) value = any_float();
    return x;
  }
  Words words(std::size_t count) {
    Words result(count);
    for (auto& value : result) value = word();
    return result;
  }

  void check_quantize(const Floats& x, int exponent, std::uint32_t n, Store store) {
    Words dst = words(x.size() + 1);  // one word more, to notice writes past the end
    Words expected = dst;
    std::size_t lost = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto word = reference_quantize(x[i], exponent, n);
      expected[i] = reference_stored(dst[i], word, store);
      lost += word == 0 && x[i] != 0 && std::isfinite(x[i]);
    }
    const auto e = static_cast<std::uint8_t>(exponent);
    ASSERT_EQ(codec_->float32.quantize(x.data(), x.size(), e, scale_for(n), store, dst.data()), lost)
        << "n=" << n << " b=" << exponent;
    for (std::size_t i = 0; i < dst.size(); ++i) {
      ASSERT_EQ(dst[i], expected[i]) << "n=" << n << " b=" << exponent << " store=" << int(store) << " i=" << i << "/"
                                     << x.size() << " x=" << (i < x.size() ? x[i] : 0);
    }
  }

  void check_dequantize(const Words& sum, int exponent, std::uint32_t n, Order order, bool keep) {
    Floats y = floats(sum.size() + 1);
    Floats expected = y;
    for (std::size_t i = 0; i < sum.size(); ++i) {
      const std::uint32_t host = order == Order::kHost ? sum[i] : big_endian(sum[i]);
      if (!keep || std::isfinite(y[i])) expected[i] = reference_dequantize(host, exponent, n);
    }
    codec_->float32.dequantize(sum.data(), sum.size(), static_cast<std::uint8_t>(exponent), scale_for(n), order, keep,
                               y.data());
    for (std::size_t i = 0; i < y.size(); ++i) {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(y[i]), std::bit_cast<std::uint32_t>(expected[i]))
          << "n=" << n << " b=" << exponent << " order=" << int(order) << " keep=" << keep << " i=" << i;
    }
    if (!keep) check_dequantize_streaming(sum, exponent, n, order, y);
  }

  // Checks the streaming variant, with memory that is aligned to a cache line, and with memory that is not.
  void check_dequantize_streaming(const Words& sum, int exponent, std::uint32_t n, Order order,
                                  const Floats& expected) {
    Floats memory(sum.size() + 32);
    void* line = memory.data();
    std::size_t room = 4 * memory.size();
    std::align(64, 64, line, room);
    for (const std::size_t offset : {0, 3}) {
      float* y = static_cast<float*>(line) + offset;
      y[sum.size()] = expected.back();
      codec_->float32.dequantize_streaming(sum.data(), sum.size(), static_cast<std::uint8_t>(exponent), scale_for(n),
                                           order, y);
      codec_->end_streaming();
      for (std::size_t i = 0; i < expected.size(); ++i) {
        ASSERT_EQ(std::bit_cast<std::uint32_t>(y[i]), std::bit_cast<std::uint32_t>(expected[i]))
            << "n=" << n << " b=" << exponent << " order=" << int(order) << " offset=" << offset << " i=" << i;
      }
    }
  }

  // Compares exchange() with the three calls whose work it does.
  void check_exchange(std::size_t blocks, std::size_t block_size, Store store, bool merge, bool streaming,
                      bool aligned) {
    const std::size_t count = blocks * block_size;
    const std::uint32_t n = 1 + below(1024);
    const Floats ahead = floats(count), x = floats(count);
    const Words sum = words(count), old_words = words(count);
    std::vector<std::uint8_t> x_exponents(blocks), sum_exponents(blocks), old_exponents(blocks);
    for (std::size_t i = 0; i < blocks; ++i) {
      x_exponents[i] = static_cast<std::uint8_t>(below(255));
      sum_exponents[i] = static_cast<std::uint8_t>(below(255));
      old_exponents[i] = static_cast<std::uint8_t>(below(256));
    }
    Words dst = old_words, expected_dst = old_words;
    std::vector<std::uint8_t> exponents = old_exponents;
    Floats memory(count + 32), expected_y(count);
    void* line = memory.data();
    std::size_t room = 4 * memory.size();
    std::align(64, 64, line, room);
    float* y = static_cast<float*>(line) + (aligned ? 0 : 3);
    const std::size_t lost = codec_->float32.exchange(
        {blocks, block_size, ahead.data(), exponents.data(), merge, x.data(), x_exponents.data(), store, dst.data(),
         sum.data(), sum_exponents.data(), streaming, y},
        scale_for(n), scale_for(n));
    codec_->end_streaming();
    std::size_t expected_lost = 0;
    for (std::size_t i = 0; i < blocks; ++i) {
      const std::size_t first = i * block_size;
      const std::uint8_t exponent = codec_->float32.exponent(&ahead[first], block_size);
      ASSERT_EQ(exponents[i], merge ? std::max(old_exponents[i], exponent) : exponent) << i;
      expected_lost +=
          codec_->float32.quantize(&x[first], block_size, x_exponents[i], scale_for(n), store, &expected_dst[first]);
      codec_->float32.dequantize(&sum[first], block_size, sum_exponents[i], scale_for(n), Order::kHost, false,
                                 &expected_y[first]);
    }
    ASSERT_EQ(dst, expected_dst);
    ASSERT_EQ(lost, expected_lost);
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(y[i]), std::bit_cast<std::uint32_t>(expected_y[i])) << i;
    }
  }

  const Codec* codec_ = nullptr;
  std::mt19937_64 random_;
};

}  // namespace jaxina::numerics::testing
