// Tests every codec variant against the specification. The specification is written here once more, one element at a
// time, with double arithmetic and library functions. The results must have the same bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "rdma_engine/numerics/codec.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "rdma_engine/errors.h"
#include "tests/native/test_seed.h"

namespace jaxina::numerics {
namespace {

using Floats = std::vector<float>;
using Words = std::vector<std::uint32_t>;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr Store kStores[] = {Store::kWrite, Store::kAdd, Store::kBigEndian};
constexpr Order kOrders[] = {Order::kHost, Order::kBigEndian};

// ---- the specification, element by element ----

int reference_log2_workers(std::uint32_t n) { return static_cast<int>(std::ceil(std::log2(static_cast<double>(n)))); }

int reference_exponent(const float* x, std::size_t count, bool finite_only) {
  double largest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (std::isfinite(x[i])) {
      largest = std::max(largest, std::fabs(static_cast<double>(x[i])));
    } else if (!finite_only) {
      return 255;
    }
  }
  if (largest == 0) return 0;
  int m = 0;
  std::frexp(largest, &m);
  return std::clamp(m + 126, 0, 254);
}

std::uint32_t reference_quantize(float x, int exponent, std::uint32_t n) {
  if (!std::isfinite(x)) return 0;
  const int m = exponent - 126;
  const double scaled = std::ldexp(static_cast<double>(x), 31 - reference_log2_workers(n) - m);
  const double limit = std::floor(2147483647.0 / n);
  return static_cast<std::uint32_t>(static_cast<std::int32_t>(std::clamp(std::nearbyint(scaled), -limit, limit)));
}

float reference_dequantize(std::uint32_t word, int exponent, std::uint32_t n) {
  const int m = exponent - 126;
  const float rounded = static_cast<float>(static_cast<std::int32_t>(word));
  return static_cast<float>(std::ldexp(static_cast<double>(rounded), -(31 - reference_log2_workers(n) - m)));
}

std::uint32_t reference_flags(float x) {
  if (std::isnan(x)) return 0x00010001;
  if (x == kInf) return 0x00000001;
  if (x == -kInf) return 0x00010000;
  return 0;
}

std::uint32_t reversed_bytes(std::uint32_t word) {
  std::uint32_t result = 0;
  for (int byte = 0; byte < 4; ++byte) result |= (word >> (8 * byte) & 0xff) << (8 * (3 - byte));
  return result;
}

// Converts a word of this host to network order.
std::uint32_t big_endian(std::uint32_t word) {
  return std::endian::native == std::endian::little ? reversed_bytes(word) : word;
}

std::uint32_t reference_stored(std::uint32_t old, std::uint32_t word, Store store) {
  switch (store) {
    case Store::kWrite: return word;
    case Store::kAdd: return old + word;
    case Store::kBigEndian: return big_endian(word);
  }
  return 0;
}

// ---- inputs ----

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

INSTANTIATE_TEST_SUITE_P(Variants, CodecTest, ::testing::Values("scalar", "avx2", "avx512"),
                         [](const auto& info) { return info.param; });

// ---- tests ----

TEST_P(CodecTest, NamesItself) { EXPECT_EQ(codec_->name, GetParam()); }

TEST_P(CodecTest, ExponentIsTheLargestInTheBlock) {
  for (std::size_t count = 0; count <= 300; ++count) {
    Floats x = floats(count);
    ASSERT_EQ(codec_->float32.finite_exponent(x.data(), count), reference_exponent(x.data(), count, true)) << count;
    ASSERT_EQ(codec_->float32.exponent(x.data(), count), reference_exponent(x.data(), count, false)) << count;
    for (float& value : x) value = std::isfinite(value) ? value : -1.5f;
    ASSERT_EQ(codec_->float32.exponent(x.data(), count), reference_exponent(x.data(), count, false)) << count;
  }
}

TEST_P(CodecTest, ExponentSeesOneValueInEveryPosition) {
  for (float value : {0x1p-149f, 0x1.fffffcp-127f, 0x1p-126f, -0.75f, 1.0f, -0x1.fffffep127f, kInf, -kInf,
                      std::bit_cast<float>(0x7f800001u), std::bit_cast<float>(0xffffffffu)}) {
    for (std::size_t at = 0; at < 67; ++at) {
      Floats x(67, -0.0f);
      x[at] = value;
      ASSERT_EQ(codec_->float32.exponent(x.data(), x.size()), reference_exponent(x.data(), x.size(), false))
          << value << at;
      ASSERT_EQ(codec_->float32.finite_exponent(x.data(), x.size()), reference_exponent(x.data(), x.size(), true))
          << value;
    }
  }
}

TEST_P(CodecTest, ExchangeDoesWhatThreeCallsDo) {
  for (const std::size_t block_size : {8u, 24u, 256u, 500u}) {
    for (const std::size_t blocks : {1u, 5u}) {
      for (const Store store : {Store::kWrite, Store::kAdd}) {
        for (const bool merge : {false, true}) {
          for (const bool streaming : {false, true}) {
            for (const bool aligned : {false, true}) {
              check_exchange(blocks, block_size, store, merge, streaming, aligned);
            }
          }
        }
      }
    }
  }
}

TEST_P(CodecTest, QuantizesAnyBitsAtEveryExponent) {
  for (int exponent = 0; exponent <= 254; ++exponent) {
    for (std::uint32_t n : {1, 2, 3, 4, 5, 8, 16, 100, 255, 256, 1000, 1023, 1024}) {
      Floats x = floats(20 + below(30));
      for (std::size_t i = 0; i < x.size(); i += 2) x[i] = near_decision(exponent, n);
      check_quantize(x, exponent, n, kStores[below(3)]);
    }
  }
}

TEST_P(CodecTest, QuantizesForEveryNumberOfWorkers) {
  for (std::uint32_t n = 1; n <= kMaxWorkers; ++n) {
    const int exponent = static_cast<int>(below(255));
    Floats x(40);
    for (float& value : x) value = below(8) == 0 ? any_float() : near_decision(exponent, n);
    check_quantize(x, exponent, n, Store::kWrite);
  }
}

TEST_P(CodecTest, QuantizesEveryCountIntoEveryStore) {
  for (std::size_t count = 0; count <= 67; ++count) {
    for (Store store : kStores) check_quantize(floats(count), 127, 3, store);
  }
  for (std::size_t count : {255, 256, 257, 4096, 10007}) {
    for (Store store : kStores) check_quantize(floats(count), 127, 3, store);
  }
}

TEST_P(CodecTest, SumOfTheLargestWordsDoesNotOverflow) {
  for (std::uint32_t n = 1; n <= kMaxWorkers; ++n) {
    for (float value : {0x1.fffffep127f, -0x1.fffffep127f}) {
      std::uint32_t word = 0;
      codec_->float32.quantize(&value, 1, 254, scale_for(n), Store::kWrite, &word);
      const std::int64_t sum = std::int64_t{n} * static_cast<std::int32_t>(word);
      ASSERT_LE(std::abs(sum), 0x7fffffff) << n;
      ASSERT_GT(std::abs(sum), 0x3ff00000) << n;  // the sum uses the range
    }
  }
}

TEST_P(CodecTest, DequantizesAnyWordAtEveryExponent) {
  for (int exponent = 0; exponent <= 254; ++exponent) {
    for (std::uint32_t n : {1, 2, 3, 7, 64, 1000, 1024}) {
      Words sum = words(20 + below(30));
      for (std::size_t i = 0; i < sum.size(); i += 3) sum[i] = static_cast<std::uint32_t>(std::int32_t(below(9)) - 4);
      check_dequantize(sum, exponent, n, kOrders[below(2)], below(2) == 0);
    }
  }
}

TEST_P(CodecTest, DequantizesEveryCountFromEveryOrder) {
  for (std::size_t count = 0; count <= 67; ++count) {
    for (Order order : kOrders) {
      for (bool keep : {false, true}) check_dequantize(words(count), 140, 4, order, keep);
    }
  }
  for (Order order : kOrders) check_dequantize(words(10007), 140, 4, order, true);
}

TEST_P(CodecTest, DequantizeOverflowsToInfinityAndKeepsSubnormals) {
  const Words sum = {0x7fffffff, 0x80000001, 1, 0xffffffff};
  Floats y(4);
  codec_->float32.dequantize(sum.data(), 4, 254, scale_for(1024), Order::kHost, false, y.data());
  EXPECT_EQ(y[0], kInf);
  EXPECT_EQ(y[1], -kInf);
  codec_->float32.dequantize(sum.data(), 4, 8, scale_for(1), Order::kHost, false, y.data());
  EXPECT_EQ(y[2], 0x1p-149f);
  EXPECT_EQ(y[3], -0x1p-149f);
}

TEST_P(CodecTest, WorksInPlaceAndOnUnalignedMemory) {
  for (std::size_t offset = 0; offset < 16; ++offset) {
    for (std::size_t count : {1, 15, 16, 33, 256}) {
      Floats memory = floats(offset + count);
      const Floats x(memory.begin() + offset, memory.end());
      float* in_place = memory.data() + offset;
      auto* as_words = reinterpret_cast<std::uint32_t*>(in_place);
      codec_->float32.quantize(in_place, count, 130, scale_for(5), Store::kBigEndian, as_words);
      codec_->float32.dequantize(as_words, count, 130, scale_for(5), Order::kBigEndian, false, in_place);
      for (std::size_t i = 0; i < count; ++i) {
        ASSERT_EQ(in_place[i], reference_dequantize(reference_quantize(x[i], 130, 5), 130, 5)) << i;
      }
    }
  }
}

TEST_P(CodecTest, FlagsNonFiniteValuesIntoEveryStore) {
  for (std::size_t count = 0; count <= 67; ++count) {
    for (Store store : kStores) {
      const Floats x = floats(count);
      Words dst = words(count + 1), expected = dst;
      for (std::size_t i = 0; i < count; ++i) expected[i] = reference_stored(dst[i], reference_flags(x[i]), store);
      codec_->float32.non_finite_flags(x.data(), count, store, dst.data());
      ASSERT_EQ(dst, expected);
    }
  }
}

TEST_P(CodecTest, SummedFlagsFollowIeeeAddition) {
  constexpr std::uint32_t kWorkers = kMaxWorkers;  // the most flags that one half of a word may have to add up
  const float kinds[] = {1.0f, kInf, -kInf, std::nanf("")};
  for (std::size_t count : {1, 8, 16, 61}) {
    for (Order order : kOrders) {
      for (bool clear : {false, true}) {
        Words sum(count, 0);
        Floats ieee(count, 0.0f);
        // In element i, worker 0 has one kind and all others have another, so that halves reach 1023 and 1024.
        for (std::uint32_t worker = 0; worker < kWorkers; ++worker) {
          Floats x(count);
          for (std::size_t i = 0; i < count; ++i) x[i] = worker == 0 ? kinds[i % 4] : kinds[i / 4 % 4];
          codec_->float32.non_finite_flags(x.data(), count, Store::kAdd, sum.data());
          for (std::size_t i = 0; i < count; ++i) ieee[i] += x[i];
        }
        if (order == Order::kBigEndian) std::transform(sum.begin(), sum.end(), sum.begin(), big_endian);
        Floats y = floats(count + 1), old = y;
        codec_->float32.apply_non_finite_flags(sum.data(), count, order, clear, y.data());
        for (std::size_t i = 0; i < count; ++i) {
          const auto bits = std::bit_cast<std::uint32_t>(y[i]);
          if (std::isnan(ieee[i])) {
            ASSERT_EQ(bits, 0x7fc00000u) << i;
          } else if (std::isinf(ieee[i])) {
            ASSERT_EQ(y[i], ieee[i]) << i;
          } else {
            ASSERT_EQ(bits, clear ? 0u : std::bit_cast<std::uint32_t>(old[i])) << i;
          }
        }
        ASSERT_EQ(std::bit_cast<std::uint32_t>(y[count]), std::bit_cast<std::uint32_t>(old[count]));
      }
    }
  }
}

TEST_P(CodecTest, IntegersAreExactModulo32Bits) {
  for (std::size_t count : {0, 1, 7, 8, 15, 16, 17, 31, 67, 1000}) {
    const Words x = words(count);
    const Words before = words(count + 1);
    for (Store store : kStores) {
      Words dst = before, expected = before;
      for (std::size_t i = 0; i < count; ++i) expected[i] = reference_stored(before[i], x[i], store);
      codec_->encode_int32(x.data(), count, store, dst.data());
      ASSERT_EQ(dst, expected);
    }
    for (Order order : kOrders) {
      Words y = before, expected = before;
      for (std::size_t i = 0; i < count; ++i) expected[i] = order == Order::kHost ? x[i] : big_endian(x[i]);
      codec_->decode_int32(x.data(), count, order, y.data());
      ASSERT_EQ(y, expected);
    }
    Words added = before, loaded = before, expected_added = before, expected_loaded = before;
    for (std::size_t i = 0; i < count; ++i) {
      expected_added[i] += big_endian(x[i]);
      expected_loaded[i] = big_endian(x[i]);
    }
    codec_->add_big_endian(x.data(), count, added.data());
    codec_->load_big_endian(x.data(), count, loaded.data());
    ASSERT_EQ(added, expected_added);
    ASSERT_EQ(loaded, expected_loaded);
  }
}

#if defined(__x86_64__)
TEST_P(CodecTest, GivesTheSameBitsOnAThreadThatFlushesSubnormalsAndRoundsDown) {
  const Floats x = {0x1p-149f, 0x1.8p-127f, -0x1p-140f, 0x1p-126f};
  const unsigned before = _mm_getcsr();
  const unsigned flushing = before | 0x8040 | 0x2000;  // FTZ, DAZ, round towards minus infinity
  Words words(4);
  Floats y(4);
  _mm_setcsr(flushing);
  codec_->float32.quantize(x.data(), 4, 0, scale_for(1024), Store::kWrite, words.data());
  codec_->float32.dequantize(words.data(), 4, 0, scale_for(1024), Order::kHost, false, y.data());
  const unsigned after = _mm_getcsr();
  _mm_setcsr(before);
  EXPECT_EQ(after & 0xe040, flushing & 0xe040) << "the thread's mode must come back";
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(words[i], reference_quantize(x[i], 0, 1024)) << i;
    EXPECT_EQ(std::bit_cast<std::uint32_t>(y[i]), std::bit_cast<std::uint32_t>(reference_dequantize(words[i], 0, 1024)))
        << i;
  }
}
#endif

// ---- which variant runs ----

// Exits with 0 if codec() chooses `expected`, or, if that is "", if it refuses with an error that names the variable.
[[noreturn]] void choose_with(const char* wanted, std::string_view expected) {
  wanted == nullptr ? unsetenv("JAXINA_CODEC") : setenv("JAXINA_CODEC", wanted, 1);
  try {
    std::_Exit(codec().name == expected ? 0 : 1);
  } catch (const Error& error) {
    const bool clear = error.status().code == ErrorCode::kInvalidArgument &&
                       error.status().message.find("JAXINA_CODEC=" + std::string(wanted)) != std::string::npos;
    std::_Exit(expected.empty() && clear ? 0 : 2);
  }
}

// A process makes the choice only once, so each case runs in a process of its own.
TEST(CodecChoice, FollowsTheEnvironmentOrTheProcessor) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  std::string_view fastest = "scalar";
  for (const char* name : {"avx2", "avx512"}) {
    const bool runs = codec_named(name) != nullptr;
    if (runs) fastest = name;
    EXPECT_EXIT(choose_with(name, runs ? name : ""), ::testing::ExitedWithCode(0), "") << name;
  }
  EXPECT_EXIT(choose_with("scalar", "scalar"), ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(choose_with(nullptr, fastest), ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(choose_with("sse9", ""), ::testing::ExitedWithCode(0), "");
  EXPECT_EQ(codec_named("sse9"), nullptr);
}

}  // namespace
}  // namespace jaxina::numerics
