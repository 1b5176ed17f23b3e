// Tests counters, the clock, UTF-8, and checked conversions and assertions, which stay on in release builds: what they
// let pass, and how they stop the process.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <set>
#include <string>
#include <string_view>

#include "rdma_engine/base/assert.h"
#include "rdma_engine/base/clock.h"
#include "rdma_engine/base/counters.h"
#include "rdma_engine/base/narrow.h"
#include "rdma_engine/base/utf8.h"
#include "rdma_engine/base/watched_clock.h"

namespace jaxina {
namespace {

static_assert(narrow<std::uint16_t>(std::size_t{65'535}) == 65'535);
static_assert(narrow<std::int8_t>(-128) == -128);
static_assert(narrow<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) == 0x7fff'ffff'ffff'ffffu);

TEST(Counters, EveryOneHasANameOfItsOwn) {
  std::set<std::string_view> names;
  std::size_t rejects = 0;
  Counters().for_each([&](Counter counter, std::uint64_t value) {
    EXPECT_EQ(value, 0u);
    EXPECT_NE(to_string(counter), "unknown");
    names.insert(to_string(counter));
    rejects += is_reject(counter);
  });
  EXPECT_EQ(names.size(), Counters::kSize);
  EXPECT_EQ(rejects, 22u);
  for (const Counter counter : {Counter::kTruncated, Counter::kAborted, Counter::kRdmaNoAccess}) {
    EXPECT_TRUE(is_reject(counter)) << to_string(counter);
  }
  for (const Counter counter : {Counter::kCollectives, Counter::kPacketsRejected, Counter::kDuplicates}) {
    EXPECT_FALSE(is_reject(counter)) << to_string(counter);
  }
}

TEST(Counters, AreAddedOneByOne) {
  Counters one, other;
  one[Counter::kUpdates] = 5;
  other[Counter::kUpdates] = 2;
  other[Counter::kRdmaNoAccess] = 9;
  one += other;
  EXPECT_EQ(one[Counter::kUpdates], 7u);
  EXPECT_EQ(one[Counter::kRdmaNoAccess], 9u);
  EXPECT_EQ(one[Counter::kStale], 0u);
}

TEST(Narrow, AValueThatFitsIsKept) {
  for (std::size_t value = 0; value <= 255; ++value) EXPECT_EQ(narrow<std::uint8_t>(value), value);
}

TEST(NarrowDeathTest, AValueThatDoesNotFitStopsTheProcessWithPlaceAndValue) {
  volatile std::size_t words = 65'536;
  EXPECT_DEATH(narrow<std::uint16_t>(std::size_t{words}), "base_test.cc:[0-9]+: jaxina: 65536 does not fit");
  volatile int negative = -1;
  volatile std::uint32_t large = 0x8000'0000u;
  EXPECT_DEATH(narrow<std::uint64_t>(int{negative}), "-1 does not fit");
  EXPECT_DEATH(narrow<std::int32_t>(std::uint32_t{large}), "2147483648 does not fit");
}

TEST(AssertDeathTest, AFalseConditionStopsTheProcessWithPlaceAndCondition) {
  volatile std::size_t in_flight = 5;
  JAXINA_ASSERT(in_flight <= 5);
  EXPECT_DEATH(JAXINA_ASSERT(in_flight <= 4), "base_test.cc:[0-9]+: jaxina: assertion failed: in_flight <= 4");
}

TEST(Clock, NeverGoesBack) {
  Nanoseconds last = now();
  for (int i = 0; i < 1000; ++i) {
    const Nanoseconds next = now();
    ASSERT_GE(next, last);
    last = next;
  }
}

TEST(Utf8, ATextIsCutBetweenCharacters) {
  EXPECT_EQ(start_of("short", 5), "short");
  EXPECT_EQ(start_of("longer", 5), "longe");
  const std::string text = "xé€𝄞";  // characters of 1, 2, 3 and 4 bytes
  const std::string_view starts[] = {"", "x", "x", "xé", "xé", "xé", "xé€", "xé€", "xé€", "xé€", text, text};
  for (std::size_t bytes = 0; bytes < std::size(starts); ++bytes) EXPECT_EQ(start_of(text, bytes), starts[bytes]);
  EXPECT_EQ(start_of("\x80\x80\x80", 2), "");
}

TEST(WatchedClock, GapsCountNoMoreThanTheLongestWatch) {
  WatchedClock clock(10);
  EXPECT_EQ(clock.look(1000), 0) << "it begins at the first look";
  EXPECT_EQ(clock.look(1004), 4);
  EXPECT_EQ(clock.look(9000), 14);
  EXPECT_EQ(clock.look(8990), 14) << "another thread has looked at a later time";
  EXPECT_EQ(clock.look(9010), 24);
  EXPECT_EQ(clock.reading(), 24);
}

TEST(Utf8, OnlyBytesThatAreNoCharactersAreReplaced) {
  const std::string text = "x é € 𝄞 \xed\x9f\xbf \xf4\x8f\xbf\xbf";
  EXPECT_EQ(as_utf8(text), text);
  EXPECT_EQ(as_utf8("a\x80z"), "a?z") << "a continuation without its start";
  EXPECT_EQ(as_utf8("a\xc3"), "a?") << "a start without its continuation";
  EXPECT_EQ(as_utf8("\xe2\x82z"), "??z");
  EXPECT_EQ(as_utf8("\xc0\xaf \xe0\x9f\xbf \xf0\x8f\xbf\xbf"), "?? ??? ????") << "longer than they need to be";
  EXPECT_EQ(as_utf8("\xed\xa0\x80"), "???") << "a surrogate";
  EXPECT_EQ(as_utf8("\xf4\x90\x80\x80 \xff"), "???? ?") << "above the largest";
}

}  // namespace
}  // namespace jaxina
