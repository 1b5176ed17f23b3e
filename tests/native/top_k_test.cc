// Compares top_k() with a stable sort of all values, on arrays that are random, sparse, in patterns, or of few values.
#include "rdma_engine/numerics/top_k.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "rdma_engine/errors.h"
#include "rdma_engine/numerics/split_mix.h"
#include "tests/native/test_seed.h"

namespace jaxina::numerics {
namespace {

using Indices = std::vector<std::int32_t>;
using Values = std::vector<float>;

Indices chosen_of(const Values& values, std::size_t k) {
  Indices chosen(k, -1);
  top_k(values, chosen);
  return chosen;
}

Indices sorted(const Values& values, std::size_t k) {
  Indices all(values.size());
  std::iota(all.begin(), all.end(), 0);
  std::stable_sort(all.begin(), all.end(),
                   [&](std::int32_t a, std::int32_t b) { return std::fabs(values[a]) > std::fabs(values[b]); });
  all.resize(k);
  return all;
}

void expect_the_largest(const Values& values) {
  for (const double ratio : {0.0, 0.001, 0.01, 0.1, 0.5, 1.0}) {
    const auto k = std::max<std::size_t>(1, static_cast<std::size_t>(ratio * static_cast<double>(values.size())));
    SCOPED_TRACE(::testing::Message() << k << " of " << values.size());
    ASSERT_EQ(chosen_of(values, k), sorted(values, k));
  }
}

TEST(TopKTest, RandomValuesOfAllSizes) {
  std::mt19937_64 random(jaxina::testing::test_seed());
  std::normal_distribution<float> normal;
  for (const std::size_t n : {1, 2, 7, 8, 31, 32, 33, 255, 256, 1000, 5000, 65537}) {
    Values values(n);
    for (float& value : values) value = normal(random);
    expect_the_largest(values);
  }
}

TEST(TopKTest, FewerThanKAreNotZero) {
  std::mt19937_64 random(jaxina::testing::test_seed());
  for (const std::size_t n : {40, 20000}) {
    Values values(n);
    for (std::size_t i = 0; i < n / 200 + 1; ++i) values[random() % n] = static_cast<float>(i) - 3;
    expect_the_largest(values);
    expect_the_largest(Values(n, 0.0f));
    expect_the_largest(Values(n, -0.0f));
  }
}

TEST(TopKTest, OfEqualMagnitudesTheFirst) {
  std::mt19937_64 random(jaxina::testing::test_seed());
  Values values(30000);
  for (float& value : values) value = static_cast<float>(static_cast<int>(random() % 9) - 4);
  expect_the_largest(values);
  EXPECT_EQ(chosen_of({2, -2, 2, 3}, 3), (Indices{3, 0, 1}));
}

TEST(TopKTest, WhereTheSampleMisleads) {
  // All large values are in one place, which a sample hardly meets, or everywhere else.
  Values cluster(100000, 1e-3f), shadow(100000, 1.0f);
  for (std::size_t i = 5000; i < 6500; ++i) {
    cluster[i] = static_cast<float>(i);
    shadow[i] = 1e-3f;
  }
  expect_the_largest(cluster);
  expect_the_largest(shadow);
  Values columns(1 << 16);
  for (std::size_t i = 0; i < columns.size(); ++i) columns[i] = i % 64 == 0 ? static_cast<float>(i) : 1e-6f;
  expect_the_largest(columns);
}

TEST(TopKTest, WhereTheSampleHasTheLargest) {
  // Far fewer values than k are as large as the sample says. 1,024 stretches of 97 values are sampled (top_k.cc).
  Values values(100000, 1.0f);
  for (std::uint64_t i = 0; i < 1024; ++i) values[i * 97 + random64(0, i) % 97] = static_cast<float>(2 + i);
  expect_the_largest(values);
}

TEST(TopKTest, ExtremeValues) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kTiny = std::numeric_limits<float>::denorm_min(), kHuge = std::numeric_limits<float>::max();
  EXPECT_EQ(chosen_of({0, kTiny, -kHuge, kInfinity, -kNan, -kTiny, 1, -0.0f}, 8), (Indices{4, 3, 2, 6, 1, 5, 0, 7}));
  Values values(4096, kTiny);
  values[4000] = -kInfinity;
  values[77] = kHuge;
  EXPECT_EQ(chosen_of(values, 4), (Indices{4000, 77, 0, 1}));
}

TEST(TopKTest, NothingIsAskedFor) { EXPECT_TRUE(chosen_of({1, 2}, 0).empty()); }

TEST(TopKTest, MoreThanThereAre) {
  try {
    chosen_of({1, 2}, 3);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.status().code, ErrorCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace jaxina::numerics
