// Tests the payload of passes alone, without a stream: what it writes for given chunks, what it keeps of results, and
// what it decodes.
#include "rdma_engine/worker/pass_payload.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "rdma_engine/worker/worker.h"
#include "tests/native/reference.h"
#include "tests/native/small_shape.h"

namespace jaxina {
namespace {

const JobShape kShape = testing::SmallShape{2, 8, 2}.of(1);

Result result_of(std::uint16_t slot, const std::vector<std::uint32_t>& words,
                 const std::vector<std::uint8_t>& exponents) {
  return {slot, 0, 0, words.size(), exponents.size(), words.data(), exponents.data(), numerics::Order::kHost};
}

TEST(PassPayload, ExponentsAndWordsOfOneChunkComeBackAsItsSum) {
  std::vector<float> x = testing::random_gradient(13, 1), y(13);
  const Layout layout({{{{ElementType::kFloat32, x.size(), x.data(), y.data()}}}}, kShape);
  PassPayload payload(kShape, 0, {}, numerics::codec());
  const Content ahead{{0, 0, Phase::kLookAhead}, &layout, 0, 1}, data{{0, 0, Phase::kData}, &layout, std::nullopt, 1};
  std::vector<std::uint8_t> exponents(2, 255), merged(2, 255);
  payload.fill_exponents(ahead, exponents.data(), false);
  payload.fill_exponents(ahead, merged.data(), true);
  EXPECT_EQ(merged, std::vector<std::uint8_t>(2, 255)) << "the maximum with what is there";
  EXPECT_FALSE(payload.keep_exponents(result_of(1, {}, exponents)).non_finite);
  std::vector<std::uint32_t> words(16, 77);
  payload.fill_words(data, words.size(), words.data(), numerics::Store::kWrite);
  EXPECT_EQ(std::vector<std::uint32_t>(words.begin() + 13, words.end()), std::vector<std::uint32_t>(3)) << "padding";
  EXPECT_TRUE(payload.decode_data(data, result_of(1, words, {})));
  const std::vector<float> expected = testing::all_reduce_reference({x}, kShape.block_size());
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_TRUE(testing::same(y[i], expected[i])) << i;
}

TEST(PassPayload, OtherExponentsHaveAnotherDigest) {
  PassPayload payload(kShape, 0, {}, numerics::codec());
  const auto digest = [&](const std::vector<std::uint8_t>& exponents) {
    return payload.keep_exponents(result_of(0, {}, exponents)).digest;
  };
  EXPECT_EQ(digest({3, 4}), digest({3, 4}));
  EXPECT_NE(digest({3, 4}), digest({4, 3}));
  EXPECT_NE(digest({3, 4}), digest({3, 5}));
}

TEST(PassPayload, ANonFiniteExponentIsNoticed) {
  PassPayload payload(kShape, 0, {}, numerics::codec());
  EXPECT_TRUE(payload.keep_exponents(result_of(0, {}, {3, numerics::kNonFiniteExponent})).non_finite);
  EXPECT_FALSE(payload.keep_exponents(result_of(0, {}, {3})).non_finite) << "only what came counts";
}

// Slot 0's next chunk is filled while slot 1's result is decoded. Doing both in one exchange must give the same bits as
// doing one after the other.
TEST(PassPayload, AnExchangeEqualsFillingAndDecoding) {
  constexpr std::size_t kCount = 6 * 16;
  std::vector<float> x = testing::random_gradient(kCount, 2);
  struct Outcome {
    std::vector<float> y = std::vector<float>(kCount, 9.0f);
    std::vector<std::uint32_t> words = std::vector<std::uint32_t>(16, 77);
    std::vector<std::uint8_t> exponents = std::vector<std::uint8_t>(2, 5);
    bool operator==(const Outcome&) const = default;
  };
  const auto outcome = [&](bool together, numerics::Store store, bool merge) {
    Outcome o;
    const Layout layout({{{{ElementType::kFloat32, kCount, x.data(), o.y.data()}}}}, kShape);
    PassPayload payload(kShape, 0, {}, numerics::codec());
    std::vector<std::uint8_t> exponents(2);
    std::vector<std::uint32_t> sum(16);
    for (std::uint16_t slot = 0; slot < 2; ++slot) {
      payload.fill_exponents({{0, slot, Phase::kLookAhead}, &layout, slot, slot}, exponents.data(), false);
      payload.keep_exponents(result_of(slot, {}, exponents));
    }
    const Content out{{0, 0, Phase::kData}, &layout, 2, 0}, in{{0, 1, Phase::kData}, &layout, 3, 1};
    payload.fill_words(in, sum.size(), sum.data(), numerics::Store::kWrite);
    const Result result = result_of(1, sum, {});
    if (together) {
      EXPECT_TRUE(payload.exchange(out, 16, o.exponents.data(), merge, o.words.data(), store, in, result));
    } else {
      payload.fill_exponents(out, o.exponents.data(), merge);
      payload.fill_words(out, 16, o.words.data(), store);
      payload.decode_data(in, result);
    }
    return o;
  };
  for (const bool merge : {false, true}) {
    for (const numerics::Store store : {numerics::Store::kWrite, numerics::Store::kAdd}) {
      EXPECT_EQ(outcome(true, store, merge), outcome(false, store, merge));
    }
  }
  EXPECT_NE(outcome(true, numerics::Store::kWrite, false).y, Outcome().y);
}

// In each block of 8, one number is large, one is zero, and the six others become zero because they are too small
// beside the large one.
TEST(PassPayload, NumbersThatBecomeZeroAreCountedOnceOnEveryWay) {
  constexpr std::size_t kCount = 6 * 16;
  std::vector<float> x(kCount, 1e-12f), y(kCount);
  for (std::size_t i = 0; i < kCount; i += 8) x[i] = 1, x[i + 1] = 0;
  std::atomic<std::uint64_t> lost = 0;
  const Layout layout({{{{ElementType::kFloat32, kCount, x.data(), y.data()}}, 0, &lost}}, kShape);
  PassPayload payload(kShape, 0, {}, numerics::codec());
  std::vector<std::uint8_t> exponents(2);
  std::vector<std::uint32_t> words(16), sum(16);
  for (std::uint16_t slot = 0; slot < 2; ++slot) {
    payload.fill_exponents({{0, slot, Phase::kLookAhead}, &layout, slot, slot}, exponents.data(), false);
    payload.keep_exponents(result_of(slot, {}, exponents));
  }
  const Content out{{0, 0, Phase::kData}, &layout, 2, 0}, in{{0, 1, Phase::kData}, &layout, 3, 1};
  payload.fill_words(in, 16, sum.data(), numerics::Store::kBigEndian);
  EXPECT_EQ(lost, 12u);
  payload.fill_words(in, 16, sum.data(), numerics::Store::kWrite, true);
  EXPECT_EQ(lost, 12u) << "sent again";
  ASSERT_TRUE(payload.exchange(out, 16, exponents.data(), false, words.data(), numerics::Store::kWrite, in,
                               result_of(1, sum, {})));
  EXPECT_EQ(lost, 24u);
}

TEST(PassPayload, FlagsAreAppliedAndFiniteValuesAreSummed) {
  std::vector<float> x(16, 1.0f), y(16);
  x[3] = INFINITY;
  x[9] = NAN;
  const Layout layout({{{{ElementType::kFloat32, x.size(), x.data(), y.data()}}}}, kShape);
  PassPayload payload(kShape, 0, {}, numerics::codec());
  const Content flags{{0, 0, Phase::kFlags}, &layout, 0, 0}, data{{0, 0, Phase::kData}, &layout, std::nullopt, 0};
  std::vector<std::uint32_t> words(16);
  std::vector<std::uint8_t> exponents(2);
  payload.fill_exponents({{0, 0, Phase::kLookAhead}, &layout, 0, 0}, exponents.data(), false);
  EXPECT_TRUE(payload.keep_exponents(result_of(0, {}, exponents)).non_finite);
  payload.fill_exponents(flags, exponents.data(), false);
  payload.fill_words(flags, words.size(), words.data(), numerics::Store::kWrite);
  payload.decode_flags(flags, result_of(0, words, exponents));
  EXPECT_FALSE(payload.keep_exponents(result_of(0, {}, exponents)).non_finite) << "those of the finite values";
  payload.fill_words(data, words.size(), words.data(), numerics::Store::kWrite);
  payload.decode_data(data, result_of(0, words, {}));
  for (std::size_t i = 0; i < 16; ++i) {
    EXPECT_TRUE(testing::same(y[i], x[i])) << i;
  }
}

// A device that has no memory left.
struct FullDevice final : TensorDevice {
  DeviceMemory allocate(std::size_t) override { throw Error(ErrorCode::kGpu, "out of memory"); }
  DeviceMemory share(std::span<const std::byte>) override { throw Error(ErrorCode::kGpu, "shares nothing"); }
  ExportedMemory allocate_exported(std::size_t) override { throw Error(ErrorCode::kGpu, "out of memory"); }
  Status start(const DeviceFormat&, std::span<const DeviceTask>, std::uint64_t&) override { return {}; }
  Status is_done(std::uint64_t, bool&) override { return {}; }
  void wait(std::uint64_t) override {}
};

TEST(Worker, ACollectiveWhoseDeviceHasNoMemoryIsNotInTheStream) {
  FullDevice device;
  Worker worker({.shape = kShape, .timer = {}});
  std::vector<std::uint32_t> in(5, 3), out(5);
  EXPECT_THROW(worker.submit({{{ElementType::kInt32, 5, in.data(), out.data()}}, 0, nullptr, &device}), Error);
  EXPECT_TRUE(worker.idle());
  worker.submit({{{ElementType::kInt32, 5, in.data(), out.data()}}});
  const std::optional<Pass> pass = worker.next_pass(0);
  ASSERT_TRUE(pass);
  std::vector<std::uint32_t> words(pass->words);
  worker.fill_words(*pass, words.data(), numerics::Store::kWrite);
  EXPECT_EQ(worker.on_result({pass->slot, pass->epoch, pass->fingerprint, words.size(), 0, words.data(), nullptr,
                              numerics::Order::kHost},
                             0),
            ResultVerdict::kAccepted);
  EXPECT_EQ(worker.pop_completed(), 1u);
  EXPECT_EQ(out, in);
}

}  // namespace
}  // namespace jaxina
