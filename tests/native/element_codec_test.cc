// Tests the types that are not one 32-bit word: conversions, limbs, and their sums, compared with independent
// arithmetic.
#include "rdma_engine/numerics/element_codec.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "rdma_engine/numerics/float64_limbs.h"
#include "rdma_engine/numerics/narrow_float.h"

namespace jaxina::numerics {
namespace {

// Returns the value of a narrow float by the format's definition.
double by_definition(std::uint16_t bits, int exponent_bits, int fraction_bits) {
  const int biased = bits >> fraction_bits & ((1 << exponent_bits) - 1);
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double sign = bits >> 15 ? -1 : 1;
  if (biased == (1 << exponent_bits) - 1) return fraction ? NAN : sign * INFINITY;
  if (biased == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp(fraction + (1 << fraction_bits), biased - bias - fraction_bits);
}

template <typename Narrow>
void check_conversions(int exponent_bits, int fraction_bits) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const double expected = by_definition(static_cast<std::uint16_t>(bits), exponent_bits, fraction_bits);
    const float wide = widen(Narrow{static_cast<std::uint16_t>(bits)});
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(wide)) << bits;
    } else {
      ASSERT_EQ(wide, expected) << bits;
      ASSERT_EQ(std::signbit(wide), bits >> 15 != 0) << bits;
    }
    Narrow back;
    narrow(wide, back);
    if (std::isnan(expected)) ASSERT_TRUE(std::isnan(widen(back))) << bits;
    else ASSERT_EQ(back.bits, bits);
  }
  // Rounds numbers between two neighbours: below, at and above the middle. A tie goes to the even neighbour.
  const std::uint32_t infinity = ((1u << exponent_bits) - 1) << fraction_bits;
  for (std::uint32_t low = 0; low < infinity; ++low) {
    const double a = by_definition(static_cast<std::uint16_t>(low), exponent_bits, fraction_bits);
    const bool overflows = low + 1 == infinity;
    const double step = overflows
                            ? a - by_definition(static_cast<std::uint16_t>(low - 1), exponent_bits, fraction_bits)
                            : by_definition(static_cast<std::uint16_t>(low + 1), exponent_bits, fraction_bits) - a;
    const auto middle = static_cast<float>(a + step / 2);
    if (static_cast<double>(middle) != a + step / 2) continue;  // the middle is not a float32
    const auto rounds_to = [](float x) {
      Narrow y;
      narrow(x, y);
      return y.bits;
    };
    ASSERT_EQ(rounds_to(middle), (low & 1) == 0 ? low : low + 1) << low;
    ASSERT_EQ(rounds_to(std::nextafter(middle, 0.0f)), low) << low;
    ASSERT_EQ(rounds_to(std::nextafter(middle, INFINITY)), low + 1) << low;
  }
}

TEST(NarrowFloat, Float16ConvertsByDefinition) { check_conversions<Float16>(5, 10); }
TEST(NarrowFloat, Bfloat16ConvertsByDefinition) { check_conversions<Bfloat16>(8, 7); }

// Sums one block of each worker's tensor, as the aggregator does it.
template <typename T>
std::vector<T> sum_block(ElementType type, const std::vector<std::vector<T>>& inputs, bool big_endian) {
  const ElementCodec& form = element_codec(type);
  const Scale scale = scale_for(static_cast<std::uint32_t>(inputs.size()));
  const std::size_t count = inputs[0].size(), words = count * form.words;
  std::uint8_t exponent = 0;
  for (const auto& x : inputs) exponent = std::max(exponent, form.exponent(codec(), x.data(), count));
  const bool flagged = exponent == kNonFiniteExponent;
  std::vector<std::uint32_t> slot(words), packet(words), flags(words);
  if (flagged) {
    exponent = 0;
    for (std::size_t w = 0; w < inputs.size(); ++w) {
      exponent = std::max(exponent, form.finite_exponent(codec(), inputs[w].data(), count));
      form.flags(codec(), inputs[w].data(), count, w == 0 ? Store::kWrite : Store::kAdd, flags.data());
    }
  }
  for (std::size_t w = 0; w < inputs.size(); ++w) {
    if (big_endian) {
      form.encode(codec(), inputs[w].data(), count, exponent, scale, Store::kBigEndian, packet.data());
      (w == 0 ? codec().load_big_endian : codec().add_big_endian)(packet.data(), words, slot.data());
    } else {
      form.encode(codec(), inputs[w].data(), count, exponent, scale, w == 0 ? Store::kWrite : Store::kAdd, slot.data());
    }
  }
  Order order = Order::kHost;
  if (big_endian) {
    codec().encode_int32(slot.data(), words, Store::kBigEndian, slot.data());
    codec().encode_int32(flags.data(), words, Store::kBigEndian, flags.data());
    order = Order::kBigEndian;
  }
  std::vector<T> y(count);
  if (flagged) form.apply_flags(codec(), flags.data(), count, order, true, y.data());
  form.decode(codec(), slot.data(), count, exponent, scale, order, flagged, y.data());
  return y;
}

template <typename T>
void check_integers(ElementType type) {
  std::mt19937_64 random(7);
  for (const std::size_t workers : {1u, 2u, 7u, 1024u}) {
    std::vector<std::vector<T>> inputs(workers, std::vector<T>(40));
    std::vector<T> expected(40, 0);
    for (auto& x : inputs) {
      for (std::size_t i = 0; i < x.size(); ++i) {
        x[i] = static_cast<T>(random());
        expected[i] = static_cast<T>(expected[i] + x[i]);
      }
    }
    EXPECT_EQ(sum_block(type, inputs, false), expected);
    EXPECT_EQ(sum_block(type, inputs, true), expected);
  }
}

TEST(Integers, AreExactModuloTheirWidth) {
  check_integers<std::uint8_t>(ElementType::kInt8);
  check_integers<std::uint16_t>(ElementType::kInt16);
  check_integers<std::uint32_t>(ElementType::kInt32);
  check_integers<std::uint64_t>(ElementType::kInt64);
}

TEST(Float64, KeepsFloat64sOwnRoundingOfTheBlockMaximum) {
  std::mt19937_64 random(11);
  std::normal_distribution<double> normal;
  for (const std::size_t workers : {1u, 2u, 3u, 8u, 100u, 1024u}) {
    for (const int magnitude : {-1070, -1000, -500, -3, 0, 7, 400, 1000}) {
      std::vector<std::vector<double>> inputs(workers, std::vector<double>(51));
      std::vector<long double> exact(51, 0);
      double largest = 0;
      for (auto& x : inputs) {
        for (std::size_t i = 0; i < x.size(); ++i) {
          x[i] = std::ldexp(normal(random), magnitude);
          exact[i] += x[i];
          largest = std::max(largest, std::fabs(x[i]));
        }
      }
      const std::vector<double> y = sum_block(ElementType::kFloat64, inputs, workers % 2 == 0);
      // Each worker's rounding error is at most half an ulp of the block's maximum. The result is rounded once more,
      // and the extended sum above has an error of its own.
      const long double ulp = std::nextafter(largest, INFINITY) - largest;
      for (std::size_t i = 0; i < y.size(); ++i) {
        const long double own = std::fabs(std::nextafter(y[i], INFINITY) - y[i]);
        const long double bound = workers * ulp / 2 + own / 2 + std::fabs(exact[i]) * 1024 * 0x1p-64L;
        ASSERT_LE(std::fabs(y[i] - exact[i]), bound) << workers << " workers, 2^" << magnitude << ", element " << i;
      }
    }
  }
}

TEST(Float64, ShortFractionsSumExactly) {
  std::vector<std::vector<double>> inputs(5, std::vector<double>(51));
  std::vector<double> expected(51, 0);
  for (std::size_t w = 0; w < inputs.size(); ++w) {
    for (std::size_t i = 0; i < 51; ++i) {
      inputs[w][i] = (static_cast<double>(i * 7919 + w * 104729) - 100000) / 1024;
      expected[i] += inputs[w][i];
    }
  }
  EXPECT_EQ(sum_block(ElementType::kFloat64, inputs, false), expected);
}

// Each worker's rounding error is at most half a unit of the second word. The result is rounded once more.
TEST(WideFloats, KeepSmallNumbersThatOneWordLoses) {
  std::mt19937_64 random(12);
  std::normal_distribution<double> normal;
  for (const std::size_t workers : {1u, 2u, 3u, 8u, 100u, 127u, 128u, 129u, 1024u}) {
    const int l = scale_for(static_cast<std::uint32_t>(workers)).log2_workers;
    for (const int magnitude : {-80, -20, 0, 7, 100}) {
      std::vector<std::vector<float>> inputs(workers, std::vector<float>(128));
      std::vector<long double> exact(128, 0);
      float largest = 0;
      for (auto& x : inputs) {
        for (std::size_t i = 0; i < x.size(); ++i) {
          x[i] = static_cast<float>(std::ldexp(normal(random), magnitude - static_cast<int>(i) / 4));
          exact[i] += x[i];
          largest = std::max(largest, std::fabs(x[i]));
        }
      }
      const std::vector<float> y = sum_block(ElementType::kWideFloat32, inputs, workers % 2 == 0);
      const int m = std::ilogb(largest) + 1;  // largest < 2^m
      for (std::size_t i = 0; i < y.size(); ++i) {
        const long double own = std::fabs(std::nextafter(y[i], INFINITY) - y[i]);
        const long double bound = static_cast<long double>(workers) * std::ldexp(1.0L, m - 63 + 2 * l) + own / 2;
        ASSERT_LE(std::fabs(y[i] - exact[i]), bound) << workers << " workers, 2^" << magnitude << ", element " << i;
      }
    }
  }
}

TEST(WideFloats, TheLargestSumsFit) {
  for (const std::size_t workers : {1u, 2u, 3u, 127u, 128u, 129u, 256u, 1000u, 1024u}) {
    for (const float x : {std::nextafter(2.0f, 0.0f), 1.0f, -std::nextafter(2.0f, 0.0f), 1.5f + 0x1p-23f}) {
      const std::vector<std::vector<float>> inputs(workers, std::vector<float>(128, x));
      const auto expected = static_cast<float>(static_cast<double>(workers) * x);
      EXPECT_EQ(sum_block(ElementType::kWideFloat32, inputs, true), std::vector<float>(128, expected))
          << workers << " " << x;
    }
  }
}

template <typename T, typename Make>
void check_non_finite(ElementType type, Make make) {
  const double inf = INFINITY;
  const std::vector<std::vector<double>> values = {{1, inf, -inf, inf, NAN, 2, -inf}, {2, 1, -inf, -inf, 1, 0.5, 4}};
  std::vector<std::vector<T>> inputs;
  for (const auto& row : values) {
    inputs.emplace_back();
    for (const double v : row) inputs.back().push_back(make(v));
  }
  const std::vector<T> y = sum_block(type, inputs, true);
  for (std::size_t i = 0; i < y.size(); ++i) {
    const T expected = make(values[0][i] + values[1][i]);
    if (std::isnan(values[0][i] + values[1][i])) continue;
    EXPECT_EQ(std::memcmp(&y[i], &expected, sizeof(T)), 0) << i;
  }
  const auto is_nan = [](T v) {
    if constexpr (std::is_same_v<T, double>) return std::isnan(v);
    else return std::isnan(widen(v));
  };
  EXPECT_TRUE(is_nan(y[3]) && is_nan(y[4]));
}

TEST(NonFinite, FollowIeeeAdditionInEveryFloatType) {
  check_non_finite<double>(ElementType::kFloat64, [](double v) { return v; });
  check_non_finite<Float16>(ElementType::kWideFloat16, [](double v) {
    Float16 y;
    narrow(static_cast<float>(v), y);
    return y;
  });
  check_non_finite<Float16>(ElementType::kFloat16, [](double v) {
    Float16 y;
    narrow(static_cast<float>(v), y);
    return y;
  });
  check_non_finite<Bfloat16>(ElementType::kBfloat16, [](double v) {
    Bfloat16 y;
    narrow(static_cast<float>(v), y);
    return y;
  });
}

#if defined(__x86_64__)

// While it is in scope, this thread flushes subnormals to zero, as XLA's threads do.
class FlushedSubnormals {
 public:
  FlushedSubnormals() { _mm_setcsr(before_ | 0x8040); }
  ~FlushedSubnormals() { _mm_setcsr(before_); }
  FlushedSubnormals(const FlushedSubnormals&) = delete;
  FlushedSubnormals& operator=(const FlushedSubnormals&) = delete;

 private:
  const unsigned before_ = _mm_getcsr();
};

template <typename Bits>
void check_subnormals(ElementType type, Bits lowest_normal) {
  std::vector<Bits> x;  // of one worker, so that its sum is x itself
  for (Bits bits = 1; bits < lowest_normal && x.size() < 20; bits = static_cast<Bits>(3 * bits)) x.push_back(bits);
  const ElementCodec& form = element_codec(type);
  const std::vector<std::uint32_t> no_flags(x.size() * form.words);
  std::vector<Bits> kept = x, sum;
  {
    const FlushedSubnormals mode;
    sum = sum_block(type, std::vector<std::vector<Bits>>{x}, false);
    form.apply_flags(codec(), no_flags.data(), x.size(), Order::kHost, false, kept.data());
  }
  EXPECT_EQ(sum, x) << to_string(type);
  EXPECT_EQ(kept, x) << to_string(type);
}

TEST(Subnormals, CountEvenIfTheThreadFlushesThem) {
  for (const ElementType type : {ElementType::kFloat32, ElementType::kWideFloat32}) {
    check_subnormals<std::uint32_t>(type, 1u << 23);
  }
  for (const ElementType type : {ElementType::kFloat16, ElementType::kWideFloat16}) {
    check_subnormals<std::uint16_t>(type, 1u << 10);
  }
  for (const ElementType type : {ElementType::kBfloat16, ElementType::kWideBfloat16}) {
    check_subnormals<std::uint16_t>(type, 1u << 7);
  }
  check_subnormals<std::uint64_t>(ElementType::kFloat64, std::uint64_t{1} << 52);
}

#endif

}  // namespace
}  // namespace jaxina::numerics
