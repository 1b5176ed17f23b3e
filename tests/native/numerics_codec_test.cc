// Tests every codec variant against the specification. The results must have the same bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "rdma_engine/numerics/codec.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "rdma_engine/errors.h"
#include "tests/native/codec_fixture.h"

namespace jaxina::numerics::testing {
namespace {

INSTANTIATE_TEST_SUITE_P(Variants, CodecTest, ::testing::Values("scalar", "avx2", "avx512"),
                         [](const auto& info) { return info.param; });

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
}  // namespace jaxina::numerics::testing
