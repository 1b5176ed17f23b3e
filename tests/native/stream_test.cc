// Tests the stream alone: which passes the slots take, which follows from the order of the collectives; and the queue
// that orders them for sending.
#include "rdma_engine/worker/stream.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

#include "tests/native/small_shape.h"

namespace jaxina {
namespace {

const JobShape kShape = testing::SmallShape{2, 8, 2}.of(1);

// Returns the layout of a tensor without memory, because nobody reads it here.
Layout layout_of(ElementType type, std::size_t count, const JobShape& shape = kShape) {
  return Layout({{{{type, count, nullptr, nullptr}}}}, shape);
}

std::vector<std::uint16_t> append(Stream& stream, Layout layout) {
  std::vector<std::uint16_t> started;
  stream.append(std::move(layout), [&](std::uint16_t slot) { started.push_back(slot); });
  return started;
}

// Runs a slot until it is idle, and returns collective, chunk, phase, words, exponents and epoch of each of its passes.
// All chunks are finite except `non_finite`.
using Taken = std::tuple<std::uint64_t, std::size_t, Phase, int, int, std::uint32_t>;
std::vector<Taken> run(Stream& stream, std::uint16_t slot, std::optional<std::size_t> non_finite = std::nullopt) {
  std::vector<Taken> taken;
  while (true) {
    const Place place = stream.content(slot).place;
    const Pass pass = stream.pass(slot, false);
    taken.push_back({place.collective, place.chunk, pass.phase, pass.words, pass.exponents, pass.epoch});
    const bool flags_next = non_finite && stream.content(slot).announced == non_finite && pass.phase != Phase::kFlags;
    if (pass.phase == Phase::kData) stream.chunk_done(place.collective);
    if (!stream.advance(slot, {.non_finite = flags_next})) return taken;
  }
}

TEST(Stream, ASlotTakesEverySecondChunkOfTwoWithTheExponentsOfTheNext) {
  Stream stream(2);
  EXPECT_EQ(append(stream, layout_of(ElementType::kFloat32, 4 * 16 + 3)), (std::vector<std::uint16_t>{0, 1}));
  EXPECT_EQ(run(stream, 0), (std::vector<Taken>{{0, 0, Phase::kLookAhead, 0, 2, 0},
                                                {0, 0, Phase::kData, 16, 2, 1},
                                                {0, 2, Phase::kData, 16, 1, 2},
                                                {0, 4, Phase::kData, 3, 0, 3}}));
  EXPECT_EQ(stream.progress().done, 3u);
  EXPECT_EQ(stream.pop_completed(), 0u);
  EXPECT_EQ(run(stream, 1).size(), 3u);
  EXPECT_EQ(stream.pop_completed(), 1u);
  EXPECT_TRUE(stream.idle());
}

TEST(Stream, AChunkThatIsNotFiniteTakesAPassOfFlagsWithItsExponents) {
  Stream stream(2);
  append(stream, layout_of(ElementType::kFloat32, 48));
  EXPECT_EQ(run(stream, 0, 2), (std::vector<Taken>{{0, 0, Phase::kLookAhead, 0, 2, 0},
                                                   {0, 0, Phase::kData, 16, 2, 1},
                                                   {0, 2, Phase::kFlags, 16, 2, 2},
                                                   {0, 2, Phase::kData, 16, 0, 3}}));
  EXPECT_EQ(run(stream, 1, 1)[1], (Taken{0, 1, Phase::kFlags, 16, 2, 1}));
}

TEST(Stream, IntegersTakeOnlyDataAndSmallCollectivesTakeTheSlotsByTurns) {
  Stream stream(2);
  EXPECT_EQ(append(stream, layout_of(ElementType::kInt32, 5)), (std::vector<std::uint16_t>{0}));
  EXPECT_EQ(append(stream, layout_of(ElementType::kInt32, 6)), (std::vector<std::uint16_t>{1}));
  EXPECT_EQ(append(stream, layout_of(ElementType::kInt32, 7)), (std::vector<std::uint16_t>{})) << "slot 0 is busy";
  EXPECT_EQ(run(stream, 0), (std::vector<Taken>{{0, 0, Phase::kData, 5, 0, 0}, {2, 0, Phase::kData, 7, 0, 1}}));
  EXPECT_EQ(stream.pop_completed(), 1u) << "the second is not done, so the third has to wait";
  run(stream, 1);
  EXPECT_EQ(stream.pop_completed(), 2u);
}

TEST(Stream, ACollectiveStartsAfterTheLastChunkOfThePreviousOne) {
  Stream stream(2);
  EXPECT_EQ(append(stream, layout_of(ElementType::kInt32, 3 * 16)), (std::vector<std::uint16_t>{0, 1}));
  run(stream, 0);
  run(stream, 1);
  EXPECT_EQ(append(stream, layout_of(ElementType::kInt32, 2 * 16)), (std::vector<std::uint16_t>{1, 0}));
  run(stream, 0);
  run(stream, 1);
  EXPECT_EQ(append(stream, layout_of(ElementType::kInt32, 1)), (std::vector<std::uint16_t>{1}));
}

// One worker submits everything at once, the other each collective only when the one before is done.
TEST(Stream, LateAndEarlySubmissionGiveTheSamePasses) {
  const std::array<std::size_t, 4> counts{100, 3, 0, 50};
  Stream early(2), late(2);
  for (const std::size_t count : counts) append(early, layout_of(ElementType::kFloat32, count));
  std::array<std::vector<std::uint32_t>, 2> fingerprints;  // of the passes of slots 0 and 1 in `late`
  for (const std::size_t count : counts) {
    for (const std::uint16_t slot : append(late, layout_of(ElementType::kFloat32, count))) {
      do {
        fingerprints[slot].push_back(late.pass(slot, false).fingerprint);
        if (late.content(slot).place.phase == Phase::kData) late.chunk_done(late.content(slot).place.collective);
      } while (late.advance(slot, {}));
    }
    EXPECT_EQ(late.pop_completed(), 1u);
  }
  for (std::uint16_t slot = 0; slot < 2; ++slot) {
    for (const std::uint32_t fingerprint : fingerprints[slot]) {
      EXPECT_EQ(early.pass(slot, false).fingerprint, fingerprint);
      early.advance(slot, {});
    }
    EXPECT_EQ(early.epoch(slot), late.epoch(slot));
  }
}

TEST(Stream, AResultMatchesByFingerprintAndSizes) {
  Stream stream(2);
  append(stream, layout_of(ElementType::kInt32, 16));
  const Pass pass = stream.pass(0, false);
  const Result right{.slot = 0,
                     .epoch = 0,
                     .fingerprint = pass.fingerprint,
                     .words = pass.words,
                     .exponents = pass.exponents,
                     .word_data = nullptr,
                     .exponent_data = nullptr,
                     .order = numerics::Order::kHost};
  EXPECT_TRUE(stream.matches(right));
  Result wrong = right;
  wrong.fingerprint ^= 1;
  EXPECT_FALSE(stream.matches(wrong));
  wrong = right;
  wrong.words += 65'536;
  EXPECT_FALSE(stream.matches(wrong));
  wrong = right;
  wrong.exponents += 256;
  EXPECT_FALSE(stream.matches(wrong));
}

// Words that workers have quantized with different exponents must never be added.
TEST(Stream, TheFingerprintDependsOnTheExponentsOfTheData) {
  const auto fingerprint = [](std::uint32_t digest) {
    Stream stream(1);
    append(stream, layout_of(ElementType::kFloat32, 16));
    stream.advance(0, {.digest = digest});
    return stream.pass(0, false).fingerprint;
  };
  EXPECT_EQ(fingerprint(7), fingerprint(7));
  EXPECT_NE(fingerprint(7), fingerprint(8));
}

TEST(StreamDeathTest, AnIdleSlotHasNoPass) {
  Stream stream(2);
  EXPECT_DEATH(stream.pass(0, false), "assertion failed");
  append(stream, layout_of(ElementType::kInt32, 16));
  stream.chunk_done(0);
  EXPECT_DEATH(stream.chunk_done(0), "assertion failed") << "there was only one chunk";
  EXPECT_FALSE(stream.advance(0, {}));
  EXPECT_DEATH(stream.advance(0, {}), "assertion failed");
}

}  // namespace
}  // namespace jaxina
