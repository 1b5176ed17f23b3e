// Runs the bodies of the CUDA kernels on the CPU, thread by thread, and compares them with the CPU codec. They must
// give the same bits for every element type, with blocks of any size, short last blocks, several runs, misaligned
// memory, and values of every kind. They must read each element once and write each word once.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "tests/native/kernel_bodies_fixture.h"

namespace jaxina::cuda {
namespace {

using namespace testing;

std::vector<Format> formats() {
  std::vector<Format> result;
  for (const ElementType type : kTypes) {
    for (const std::uint32_t block_size : {8u, 32u, 61u, 64u, 256u, 1000u, 1024u}) {
      for (const std::uint32_t workers : {1u, 3u, 1024u}) {
        for (const Order order : {Order::kHost, Order::kBigEndian}) {
          result.push_back({type, block_size, workers, WireWord::kInt32, order});
        }
      }
    }
  }
  return result;
}

TEST_F(Sweep, QuantizesAsTheCpuCodecReadingAndWritingOnce) {
  for (const Format& format : formats()) {
    SCOPED_TRACE(name_of(format));
    std::vector<Case> list = cases(format);
    for (Case& c : list) set_exponents(format, c);
    WatchedMemory memory;
    watch(memory, list);
    encode(format, list, false, memory);
    for (Case& c : list) {
      ASSERT_EQ(c.words->copy(), cpu_words(format, c)) << c.count;
      ASSERT_TRUE(memory.accessed(c.x->data(), c.x->size(), 1, 0));
      ASSERT_TRUE(memory.accessed(c.words->data(), c.words->size(), 0, 1));
    }
  }
}

TEST_F(Sweep, FindsTheExponentsOfTheCpuCodecReadingOnce) {
  for (const Format& format : formats()) {
    if (!numerics::element_codec(format.type).is_float) continue;
    SCOPED_TRACE(name_of(format));
    for (const bool finite_only : {false, true}) {
      std::vector<Case> list = cases(format);
      WatchedMemory memory;
      watch(memory, list);
      std::vector<ExponentRun> runs;
      for (Case& c : list) runs.push_back({c.x->data(), c.count, reinterpret_cast<std::uint8_t*>(c.exponents->data())});
      ExponentJob job;
      ASSERT_TRUE(plan(format, runs, finite_only, job).ok());
      job.log2_lanes = static_cast<std::uint32_t>(below(6));  // any number must do: the fused kernel sets its own
      with_float_form(format.type, [&](auto form) {
        run_exponents<typename decltype(form)::type>(job, job.runs.blocks() + below(9), WatchedAccess{&memory});
        return 0;
      });
      for (Case& c : list) {
        for_each_block(format, c.count, [&](std::size_t b, std::size_t first, std::size_t elements, std::size_t) {
          ASSERT_EQ(static_cast<int>(c.exponents->data()[b]), cpu_exponent(format, c, first, elements, finite_only))
              << b;
        });
        ASSERT_TRUE(memory.accessed(c.x->data(), c.x->size(), 1, 0));
        ASSERT_TRUE(memory.accessed(c.exponents->data(), c.exponents->size(), 0, 1));
      }
    }
  }
}

TEST_F(Sweep, DequantizesAsTheCpuCodecReadingAndWritingOnce) {
  for (const Format& format : formats()) {
    SCOPED_TRACE(name_of(format));
    const ElementCodec& codec = numerics::element_codec(format.type);
    for (const bool keep : {false, true}) {
      std::vector<Case> list = cases(format);
      std::vector<std::vector<std::byte>> expected;
      for (Case& c : list) {
        set_exponents(format, c);
        auto* sums = reinterpret_cast<std::uint32_t*>(c.words->data());
        // The sums of limbs stay below 2^26. The sums of one-word types can be anything.
        for (std::size_t i = 0; i < c.words->size() / 4; ++i) {
          sums[i] = static_cast<std::uint32_t>(random_()) >> below(codec.words > 1 ? 1 : 30);
          if (codec.words > 1) sums[i] &= 0x03ffffff;
          if (format.order == Order::kBigEndian) sums[i] = __builtin_bswap32(sums[i]);
        }
        expected.push_back(c.x->copy());
        for_each_block(format, c.count,
                       [&](std::size_t b, std::size_t first, std::size_t elements, std::size_t first_word) {
                         codec.decode(numerics::codec(), sums + first_word, elements,
                                      static_cast<std::uint8_t>(c.exponents->data()[b]), scale_of(format), format.order,
                                      keep, expected.back().data() + first * codec.size);
                       });
      }
      WatchedMemory memory;
      watch(memory, list);
      decode(format, list, keep, memory);
      for (std::size_t i = 0; i < list.size(); ++i) {
        ASSERT_EQ(list[i].x->copy(), expected[i]) << list[i].count;
        ASSERT_TRUE(memory.accessed(list[i].x->data(), list[i].x->size(), keep ? 1 : 0, 1));
      }
    }
  }
}

TEST_F(Sweep, FlagsNonFiniteValuesAsTheCpuCodec) {
  for (const Format& format : formats()) {
    const ElementCodec& codec = numerics::element_codec(format.type);
    if (!codec.is_float) continue;
    SCOPED_TRACE(name_of(format));
    const Store store = format.order == Order::kBigEndian ? Store::kBigEndian : Store::kWrite;
    for (const bool clear : {false, true}) {
      std::vector<Case> list = cases(format);
      WatchedMemory memory;
      watch(memory, list);
      std::vector<FlagRun> runs;
      std::vector<ApplyFlagRun> back;
      for (Case& c : list) {
        runs.push_back({c.x->data(), c.count, c.words->data()});
        back.push_back({c.words->data(), c.count, c.x->data()});
      }
      EncodeJob job;
      DecodeJob apply;
      ASSERT_TRUE(plan(format, runs, job).ok());
      ASSERT_TRUE(plan(format, back, clear, apply).ok());
      std::vector<std::vector<std::byte>> words, values;
      for (Case& c : list) {
        words.emplace_back(c.words->size());
        values.push_back(c.x->copy());
        for_each_block(format, c.count,
                       [&](std::size_t, std::size_t first, std::size_t elements, std::size_t first_word) {
                         auto* flags = reinterpret_cast<std::uint32_t*>(words.back().data()) + first_word;
                         auto* y = values.back().data() + first * codec.size;
                         codec.flags(numerics::codec(), y, elements, store, flags);
                         codec.apply_flags(numerics::codec(), flags, elements, format.order, clear, y);
                       });
      }
      with_float_form(format.type, [&](auto form) {
        using Form = FlagForm<typename decltype(form)::type>;
        run_encode<Form, std::uint32_t, false>(job, job.runs.blocks(), WatchedAccess{&memory});
        run_decode<Form, std::uint32_t, false>(apply, WatchedAccess{&memory});
        return 0;
      });
      for (std::size_t i = 0; i < list.size(); ++i) {
        ASSERT_EQ(list[i].words->copy(), words[i]);
        ASSERT_EQ(list[i].x->copy(), values[i]);
      }
    }
  }
}

TEST_F(Sweep, AlignedMemoryMovesSixteenBytesAtATime) {
  for (const ElementType type : kTypes) {
    if (numerics::element_codec(type).words > 1) continue;
    const Format format{type, 256};
    Case c{1024, std::make_unique<Bytes>(1024 * numerics::element_codec(type).size, 0),
           std::make_unique<Bytes>(4096, 0), std::make_unique<Bytes>(4, 0)};
    fill(type, c.x->data(), c.count, 256);
    set_exponents(format, c);
    std::vector<Case> list;
    list.push_back(std::move(c));
    WatchedMemory memory;
    watch(memory, list);
    encode(format, list, false, memory);
    EXPECT_EQ(memory.widest(), 16u) << to_string(type);
  }
}

TEST(Plan, RefusesImpossibleFormatsAndPointers) {
  float x[8] = {};
  std::uint8_t exponents[1] = {};
  std::uint32_t words[8];
  EncodeJob job;
  const QuantizeRun good[] = {{x, 8, exponents, words, 0}};
  const auto code = [&](const Format& format, std::span<const QuantizeRun> runs, bool stochastic = false) {
    return plan(format, runs, stochastic, job = {}).code;
  };
  EXPECT_EQ(code({}, good), ErrorCode::kOk);
  EXPECT_EQ(code({.block_size = 7}, good), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({.block_size = 20000}, good), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({.workers = 0}, good), ErrorCode::kTooManyWorkers);
  EXPECT_EQ(code({.workers = 1025}, good), ErrorCode::kTooManyWorkers);
  EXPECT_EQ(code({.workers = 1024, .word = WireWord::kInt8, .shift = 20}, good), ErrorCode::kOk);
  EXPECT_EQ(code({.block_size = 30, .word = WireWord::kInt8}, good), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({.word = WireWord::kInt8, .shift = 21}, good), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({.shift = 1}, good), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({.type = ElementType::kInt32, .word = WireWord::kInt16}, good), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({.type = ElementType::kFloat64}, good, true), ErrorCode::kInvalidArgument);
  const auto* odd = reinterpret_cast<const std::byte*>(x) + 1;
  const QuantizeRun misaligned[] = {{odd, 4, exponents, words, 0}}, missing[] = {{x, 8, nullptr, words, 0}};
  EXPECT_EQ(code({}, misaligned), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({}, missing), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({.type = ElementType::kInt32}, missing), ErrorCode::kOk);

  EXPECT_EQ(plan_adding({}, good, job = {}).code, ErrorCode::kOk);
  EXPECT_EQ(plan_adding({.order = Order::kBigEndian}, good, job = {}).code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(plan_adding({.word = WireWord::kInt16}, good, job = {}).code, ErrorCode::kInvalidArgument);

  DecodeJob decode;
  const DequantizeRun sums[] = {{words, 8, exponents, x}};
  const Format narrow{.word = WireWord::kInt8, .shift = 2};
  EXPECT_EQ(plan(narrow, sums, {.bits = 2}, false, decode = {}).code, ErrorCode::kOk);
  EXPECT_EQ(plan(narrow, sums, {.bits = 3}, false, decode = {}).code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(plan({}, sums, {.bits = 0}, false, decode = {}).code, ErrorCode::kInvalidArgument);
}

// Offsets could overflow only in tensors for which no test has the memory. So this tests place() alone.
TEST(Plan, BlocksBeyondFourGigabytesHaveTheRightPlace) {
  const std::uint64_t count = (std::uint64_t{5} << 30) + 3;  // float32: 20 GiB
  Runs<QuantizeRun> runs;
  runs.count = 2;
  runs.run[0].count = 100;
  runs.run[1].count = count;
  runs.first_block[1] = 1;
  runs.first_block[2] = 1 + (count + 255) / 256;
  const auto last = place(runs, {256, 256}, runs.blocks() - 1);
  EXPECT_EQ(last.run, &runs.run[1]);
  EXPECT_EQ(last.first_element, std::uint64_t{5} << 30);
  EXPECT_EQ(last.first_word, std::uint64_t{5} << 30);
  EXPECT_EQ(last.elements, 3u);
  EXPECT_TRUE(last.last);
  const Lane lane = lane_of((runs.blocks() << 5) - 1, 5);
  EXPECT_EQ(lane.group, runs.blocks() - 1);
  EXPECT_EQ(lane.index, 31u);
  EXPECT_GE(std::uint64_t{thread_blocks(runs.blocks(), 5)} * kThreads, runs.blocks() << 5);
}

}  // namespace
}  // namespace jaxina::cuda
