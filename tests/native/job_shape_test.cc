// Tests JobShape, the one place that checks a job's numbers: every limit from both sides, and the error if one is
// broken.
#include "rdma_engine/shape/job_shape.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "tests/native/test_seed.h"

namespace jaxina {
namespace {

constexpr ShapeRequest kSound{.devices = 4, .workers = 2, .slots = 8, .block_size = 256, .blocks_per_chunk = 4};

Status status_of(const ShapeRequest& request) try {
  JobShape{request};
  return {};
} catch (const Error& error) {
  return error.status();
}

template <typename Change>
ShapeRequest with(Change change) {
  ShapeRequest request = kSound;
  change(request);
  return request;
}

// Expects that a shape is refused, with this code and with a message that contains these words.
void expect_refused(const ShapeRequest& request, const std::string& words,
                    ErrorCode code = ErrorCode::kInvalidArgument) {
  const Status status = status_of(request);
  EXPECT_EQ(status.code, code) << status.text();
  EXPECT_NE(status.message.find(words), std::string::npos) << status.text();
}

void expect_sound(const ShapeRequest& request) { EXPECT_TRUE(status_of(request).ok()) << status_of(request).text(); }

TEST(JobShape, ReturnsTheRequestedNumbers) {
  const JobShape shape(with([](auto& r) { r.whole_chunks = true; }));
  EXPECT_EQ(shape.devices(), 4u);
  EXPECT_EQ(shape.workers(), 2u);
  EXPECT_EQ(shape.slots(), 8u);
  EXPECT_EQ(shape.block_size(), 256u);
  EXPECT_EQ(shape.blocks_per_chunk(), 4u);
  EXPECT_TRUE(shape.whole_chunks());
  EXPECT_EQ(shape.words_per_chunk(), 1024u);
  EXPECT_EQ(shape.packet_size(), wire::packet_size(1024, 4));
}

TEST(JobShape, Workers) {
  expect_refused(with([](auto& r) { r.workers = 0; }), "number of workers");
  expect_sound(with([](auto& r) { r.workers = r.devices = 1; }));
  expect_sound(with([](auto& r) { r.workers = r.devices = 1024; }));
  expect_refused(with([](auto& r) { r.workers = r.devices = 1025; }), "at most 1024", ErrorCode::kTooManyWorkers);
  expect_refused(with([](auto& r) { r.workers = 0xffff'ffff; }), "at most 1024", ErrorCode::kTooManyWorkers);
}

TEST(JobShape, Devices) {
  expect_sound(with([](auto& r) { r.devices = 2; }));
  expect_refused(with([](auto& r) { r.devices = 1; }), "at least as many");
  expect_refused(with([](auto& r) { r.devices = 0; }), "number of devices");
  expect_sound(with([](auto& r) { r.devices = 1024; }));
  expect_refused(with([](auto& r) { r.devices = 1025; }), "at most 1024", ErrorCode::kTooManyWorkers);
}

TEST(JobShape, Slots) {
  expect_refused(with([](auto& r) { r.slots = 0; }), "number of slots");
  expect_sound(with([](auto& r) { r.slots = 1; }));
  expect_sound(with([](auto& r) { r.slots = 65'535; }));
  expect_refused(with([](auto& r) { r.slots = 65'536; }), "between 1 and 65535, not 65536");
  expect_refused(with([](auto& r) { r.slots = 0xffff'ffff; }), "number of slots");
}

TEST(JobShape, BlockSize) {
  const auto of = [](std::uint32_t words, std::uint32_t widest) {
    return with([&](auto& r) { r.block_size = words, r.blocks_per_chunk = 1, r.widest_element = widest; });
  };
  constexpr auto kWidest = static_cast<std::uint32_t>(numerics::kMinBlockSize);
  expect_refused(of(0, kWidest), "block size");
  expect_refused(of(kWidest - 1, kWidest), "block size");
  expect_sound(of(kWidest, kWidest));
  expect_refused(of(0, 1), "block size");
  expect_sound(of(1, 1));
  expect_sound(of(16'000, kWidest));
  expect_refused(of(16'385, kWidest), "block size");
  expect_refused(of(0xffff'ffff, kWidest), "block size");
}

TEST(JobShape, BlocksPerChunk) {
  const auto of = [](std::uint32_t blocks) {
    return with([&](auto& r) { r.block_size = 8, r.blocks_per_chunk = blocks; });
  };
  expect_refused(of(0), "blocks per chunk");
  expect_sound(of(1));
  expect_sound(of(64));
  expect_refused(of(65), "blocks per chunk");
  expect_refused(of(0xffff'ffff), "blocks per chunk");
}

// The limit is a datagram of 65,507 bytes. Once a chunk of 65,536 words was accepted and gave wrong sums, because a
// pass has only 16 bits for the number of words.
TEST(JobShape, AChunkFitsADatagram) {
  const auto of = [](std::uint32_t words, std::uint32_t blocks) {
    return with([&](auto& r) { r.block_size = words, r.blocks_per_chunk = blocks; });
  };
  expect_refused(of(1024, 64), "JAXINA_BLOCKS_PER_CHUNK");
  expect_refused(of(2048, 32), "JAXINA_BLOCK_SIZE");
  expect_refused(of(3000, 32), "65507");
  expect_refused(of(16'384, 32), "65507");
  expect_refused(of(16'384, 4), "65507");
  expect_refused(of(16'384, 1), "65507");
  // The largest possible block of a multiple of 4 words in a chunk of so many blocks, and the next one. Narrow words
  // have a seed and up to four times as many blocks.
  for (const std::uint32_t blocks : {1u, 2u, 3u, 32u, 63u, 64u}) {
    const std::size_t exponents = std::min<std::size_t>(4 * blocks, wire::kMaxBlocksPerChunk);
    const std::size_t room = wire::kMaxPacketSize - wire::packet_size(wire::kSeedWords, exponents);
    const auto most = static_cast<std::uint32_t>(room / 4 / blocks / 4 * 4);
    expect_sound(of(most, blocks));
    expect_refused(of(most + 4, blocks), std::to_string(most + 4) + " words");
    EXPECT_LE(JobShape(of(most, blocks)).packet_size(), wire::kMaxPacketSize);
  }
}

// Whatever shape is asked for: either it is refused, or every number fits the field that it is narrowed to later.
TEST(JobShape, EveryShapeFitsThePacketsFields) {
  std::mt19937_64 random(testing::test_seed());
  int sound = 0;
  for (int i = 0; i < 100'000; ++i) {
    const auto draw = [&](std::uint32_t sensible) {
      return static_cast<std::uint32_t>(random() % 8 == 0 ? random() : random() % sensible);
    };
    const ShapeRequest request{.devices = draw(1100),
                               .workers = draw(600),
                               .slots = draw(66'000),
                               .block_size = draw(random() % 2 ? 17'000 : 300),
                               .blocks_per_chunk = draw(70)};
    const Status status = status_of(request);
    if (!status.ok()) {
      EXPECT_TRUE(status.code == ErrorCode::kInvalidArgument || status.code == ErrorCode::kTooManyWorkers);
      continue;
    }
    const JobShape shape(request);
    ++sound;
    ASSERT_LE(shape.packet_size(), wire::kMaxPacketSize);
    ASSERT_LE(shape.words_per_chunk(), 0xffffu);
    ASSERT_LE(shape.blocks_per_chunk(), 0xffu);
    ASSERT_LE(shape.slots(), 0xffffu);
    ASSERT_TRUE(shape.workers() >= 1 && shape.workers() <= shape.devices() && shape.devices() <= 1024);
  }
  EXPECT_GT(sound, 1000);
}

TEST(JobShape, WithSlotsChangesOnlyThePool) {
  const JobShape shape(kSound), smaller = shape.with_slots(3);
  EXPECT_EQ(smaller, JobShape(with([](auto& r) { r.slots = 3; })));
  EXPECT_NE(smaller, shape);
  EXPECT_EQ(shape.with_slots(8), shape);
  EXPECT_DEATH(static_cast<void>(shape.with_slots(9)), "slots");
  EXPECT_DEATH(static_cast<void>(shape.with_slots(0)), "slots");
}

}  // namespace
}  // namespace jaxina
