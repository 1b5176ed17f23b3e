// Tests the check that comes with a result over RDMA. It must be linear, so that the aggregator can add it as it adds
// words, and it must be wrong for all words but those of its pass.
#include "rdma_engine/messages/result_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "tests/native/test_seed.h"

namespace jaxina::roce {
namespace {

using Words = std::vector<std::uint32_t>;

constexpr std::uint32_t kFingerprint = 0xabcd1234, kEpoch = 77;

Words draw(std::mt19937_64& random, std::size_t count) {
  Words words(count);
  for (std::uint32_t& word : words) word = static_cast<std::uint32_t>(random());
  return words;
}

ResultCheck check_of(const Words& words, std::uint32_t workers = 1, std::uint32_t epoch = kEpoch) {
  return ResultCheck::of(words.data(), words.size(), kFingerprint, epoch, workers);
}

TEST(ResultCheck, TheSumOfChecksIsTheCheckOfTheSum) {
  std::mt19937_64 random(testing::test_seed());
  for (const std::size_t count : {1u, 2u, 15u, 16u, 17u, 31u, 32u, 33u, 100u, 256u, 4096u, 16'000u}) {
    for (const std::uint32_t workers : {1u, 2u, 7u, 1024u}) {
      Words sum(count);
      numerics::LinearSums sums;
      for (std::uint32_t w = 0; w < std::min(workers, 20u); ++w) {
        const Words mine = draw(random, count);
        // To save time, many workers have the same words.
        const std::uint32_t times = w == 0 ? workers - std::min(workers, 20u) + 1 : 1;
        const ResultCheck one = check_of(mine);
        for (std::size_t i = 0; i < count; ++i) sum[i] += times * mine[i];
        sums.plain += times * one.sums.plain;
        sums.weighted += times * one.sums.weighted;
      }
      EXPECT_EQ(ResultCheck{sums}, check_of(sum, workers)) << count << " words of " << workers;
    }
  }
}

TEST(ResultCheck, IsWrittenInNetworkOrderAndReadAgain) {
  const ResultCheck check{{.plain = 0x01020304, .weighted = 0xa0b0c0d0}};
  std::uint32_t words[2];
  check.write(words);
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(words);
  EXPECT_EQ(std::vector<std::uint8_t>(bytes, bytes + 8),
            (std::vector<std::uint8_t>{1, 2, 3, 4, 0xa0, 0xb0, 0xc0, 0xd0}));
  EXPECT_EQ(ResultCheck::read(words), check);
}

// A late copy of an older result that has overwritten a part of a newer one leaves a mixture, which is neither.
TEST(ResultCheck, EveryMixtureOfTwoResultsIsNoticed) {
  std::mt19937_64 random(testing::test_seed());
  for (const std::size_t count : {1u, 5u, 16u, 40u, 300u}) {
    const Words newer = draw(random, count), older = draw(random, count);
    const ResultCheck of_newer = check_of(newer, 4, kEpoch), of_older = check_of(older, 4, kEpoch - 4);
    EXPECT_NE(of_older, check_of(older, 4, kEpoch)) << "an older result as a whole, its own check with it";
    for (std::size_t written = 1; written <= count; ++written) {
      Words mixture = newer;
      std::copy_n(older.begin(), written, mixture.begin());
      EXPECT_NE(check_of(mixture, 4), of_newer) << written << " words of " << count;
      mixture = newer;
      std::copy(older.end() - static_cast<std::ptrdiff_t>(written), older.end(),
                mixture.end() - static_cast<std::ptrdiff_t>(written));
      EXPECT_NE(check_of(mixture, 4), of_newer) << written << " words of " << count;
      if (written < count) {
        EXPECT_NE(check_of(mixture, 4), of_older);
      }
    }
  }
}

TEST(ResultCheck, AWordThatChangesOrMovesIsNoticed) {
  std::mt19937_64 random(testing::test_seed());
  for (const std::size_t count : {2u, 16u, 33u, 256u}) {
    const Words words = draw(random, count);
    for (std::size_t i = 0; i < count; ++i) {
      for (int bit = 0; bit < 32; ++bit) {
        Words changed = words;
        changed[i] ^= std::uint32_t{1} << bit;
        ASSERT_NE(check_of(changed), check_of(words)) << i << " " << bit;
      }
      // A plain sum would be the same for words in another order. The weights make the difference.
      Words moved = words;
      std::swap(moved[i], moved[(i + 1) % count]);
      ASSERT_NE(check_of(moved), check_of(words)) << i;
    }
  }
}

TEST(ResultCheck, ZerosOfAnotherPassAreNoticed) {
  const Words zeros(64);
  EXPECT_NE(check_of(zeros, 3, kEpoch), check_of(zeros, 3, kEpoch + 4));
  EXPECT_NE(check_of(zeros, 3, kEpoch), (ResultCheck{{0, 0}})) << "memory that nobody has written";
}

}  // namespace
}  // namespace jaxina::roce
