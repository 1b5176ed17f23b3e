// Runs the bodies of the CUDA kernels on the CPU, thread by thread, and compares them with the CPU codec. They must
// give the same bits for every element type, with blocks of any size, short last blocks, several runs, misaligned
// memory, and values of every kind. They must read each element once and write each word once.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <tuple>

#include "tests/native/emulated_grid.h"
#include "tests/native/test_seed.h"

namespace jaxina::cuda {
namespace {

using numerics::ElementCodec;
using numerics::ElementType;
using numerics::Order;
using numerics::Rounding;
using numerics::Scale;
using numerics::Store;
using numerics::WireWord;
using testing::WatchedAccess;
using testing::WatchedMemory;

constexpr ElementType kTypes[] = {ElementType::kFloat32,     ElementType::kFloat16,     ElementType::kBfloat16,
                                  ElementType::kFloat64,     ElementType::kInt8,        ElementType::kInt16,
                                  ElementType::kInt32,       ElementType::kInt64,       ElementType::kWideFloat32,
                                  ElementType::kWideFloat16, ElementType::kWideBfloat16};
constexpr ElementType kOneWordFloats[] = {ElementType::kFloat32, ElementType::kFloat16, ElementType::kBfloat16};
constexpr std::byte kUntouched{0xa5};

// Bytes that begin at a chosen offset from a 64-byte boundary.
class Bytes {
 public:
  Bytes(std::size_t size, std::size_t offset) : size_(size), offset_(offset), bytes_(64 + offset + size, kUntouched) {
    const auto address = reinterpret_cast<std::uintptr_t>(bytes_.data());
    start_ = (64 - address % 64) % 64 + offset_;
  }
  std::byte* data() { return bytes_.data() + start_; }
  std::size_t size() const { return size_; }
  std::vector<std::byte> copy() { return {data(), data() + size_}; }

 private:
  std::size_t size_, offset_, start_ = 0;
  std::vector<std::byte> bytes_;
};

class KernelBodiesTest : public ::testing::Test {
 protected:
  void SetUp() override { random_.seed(jaxina::testing::test_seed()); }

  std::uint64_t below(std::uint64_t bound) { return random_() % bound; }

  // Fills memory with elements. A block has one kind of them: any bits, one magnitude, zeros, the smallest or the
  // largest numbers, or some NaN and Inf.
  void fill(ElementType type, std::byte* x, std::size_t count, std::size_t elements_of_block) {
    const std::size_t size = numerics::element_codec(type).size;
    for (std::size_t first = 0; first < count; first += elements_of_block) {
      const std::uint64_t kind = below(6);
      const int magnitude = static_cast<int>(below(60)) - 30;
      for (std::size_t i = first; i < std::min(count, first + elements_of_block); ++i) {
        std::uint64_t bits = random_();
        if (kind == 0) bits = 0;
        if (kind == 1) bits &= ~exponent_mask(type);  // subnormal
        if (kind == 2)
          bits = (bits & ~exponent_mask(type)) | (exponent_mask(type) & (exponent_mask(type) - lowest(type)));
        if (kind >= 3) bits = number(type, std::ldexp(normal_(random_), magnitude), bits);
        if (kind == 5 && below(9) == 0) bits |= exponent_mask(type);
        if (kind == 5 && below(30) == 0) bits = exponent_mask(type) | (below(2) << (8 * size - 1));  // an infinity
        std::memcpy(x + i * size, &bits, size);
      }
    }
  }

  static std::uint64_t exponent_mask(ElementType type) {
    switch (type) {
      case ElementType::kWideFloat32:
      case ElementType::kFloat32: return 0x7f800000;
      case ElementType::kWideFloat16:
      case ElementType::kFloat16: return 0x7c00;
      case ElementType::kWideBfloat16:
      case ElementType::kBfloat16: return 0x7f80;
      case ElementType::kFloat64: return 0x7ff0000000000000;
      default: return 0;
    }
  }
  static std::uint64_t lowest(ElementType type) { return exponent_mask(type) & (~exponent_mask(type) + 1); }
  static std::uint64_t number(ElementType type, double value, std::uint64_t otherwise) {
    numerics::Float16 half;
    numerics::Bfloat16 brain;
    switch (type) {
      case ElementType::kWideFloat32:
      case ElementType::kFloat32: return std::bit_cast<std::uint32_t>(static_cast<float>(value));
      case ElementType::kWideFloat16:
      case ElementType::kFloat16: numerics::narrow(static_cast<float>(value), half); return half.bits;
      case ElementType::kWideBfloat16:
      case ElementType::kBfloat16: numerics::narrow(static_cast<float>(value), brain); return brain.bits;
      case ElementType::kFloat64: return std::bit_cast<std::uint64_t>(value);
      default: return otherwise;
    }
  }

  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
};

// The memory of one run on both sides, and what the CPU codec computes for it.
struct Case {
  std::size_t count;
  std::unique_ptr<Bytes> x, words, exponents;

  static std::size_t words_for(std::size_t count, const Format& format) {
    const std::size_t per_element = numerics::element_codec(format.type).words,
                      of_block = format.block_size / per_element;
    if (count == 0) return 0;
    const std::size_t full = (count - 1) / of_block;
    return full * format.block_size + (count - full * of_block) * per_element;
  }
  static std::size_t blocks_for(std::size_t count, const Format& format) {
    const std::size_t of_block = format.block_size / numerics::element_codec(format.type).words;
    return (count + of_block - 1) / of_block;
  }
};

class Sweep : public KernelBodiesTest {
 protected:
  // Makes runs of many lengths, in memory of every alignment that the elements allow.
  std::vector<Case> cases(const Format& format) {
    const ElementCodec& codec = numerics::element_codec(format.type);
    const std::size_t of_block = format.block_size / codec.words, word = static_cast<std::size_t>(format.word);
    std::vector<Case> result;
    const std::size_t counts[] = {
        1, of_block - 1, of_block, 0, of_block + 1, 3 * of_block + of_block / 2, 1 + below(5 * of_block)};
    for (const std::size_t count : counts) {
      const std::size_t x_offset = below(2) ? 0 : codec.size * below(16 / codec.size);
      const std::size_t word_offset = below(2) ? 0 : word * below(16 / word);
      Case c{count, std::make_unique<Bytes>(count * codec.size, x_offset),
             std::make_unique<Bytes>(Case::words_for(count, format) * word, word_offset),
             std::make_unique<Bytes>(Case::blocks_for(count, format), below(5))};
      fill(format.type, c.x->data(), count, of_block);
      result.push_back(std::move(c));
    }
    return result;
  }

  static void watch(WatchedMemory& memory, std::vector<Case>& list) {
    for (Case& c : list) {
      for (Bytes* bytes : {c.x.get(), c.words.get(), c.exponents.get()}) memory.add(bytes->data(), bytes->size());
    }
  }

  // Calls body(block, first element, elements, first word) for each block.
  template <class Body>
  static void for_each_block(const Format& format, std::size_t count, Body body) {
    const std::size_t of_block = format.block_size / numerics::element_codec(format.type).words;
    for (std::size_t b = 0; b * of_block < count; ++b) {
      body(b, b * of_block, std::min(of_block, count - b * of_block), b * format.block_size);
    }
  }

  static std::uint8_t cpu_exponent(const Format& format, Case& c, std::size_t first, std::size_t elements,
                                   bool finite_only) {
    const ElementCodec& codec = numerics::element_codec(format.type);
    const auto* x = c.x->data() + first * codec.size;
    return (finite_only ? codec.finite_exponent : codec.exponent)(numerics::codec(), x, elements);
  }

  // Sets exponents as they come back from an aggregator: mostly the block's own or a little more, sometimes any.
  void set_exponents(const Format& format, Case& c) {
    const std::uint8_t most = format.type == ElementType::kFloat64 ? 227 : 254;
    for_each_block(format, c.count, [&](std::size_t b, std::size_t first, std::size_t elements, std::size_t) {
      std::uint64_t exponent = cpu_exponent(format, c, first, elements, true) + below(3);
      if (format.type != ElementType::kFloat64 && below(4) == 0) exponent = below(255);
      c.exponents->data()[b] = static_cast<std::byte>(std::min<std::uint64_t>(exponent, most));
    });
  }

  static Scale scale_of(const Format& format) { return numerics::scale_for(format.workers, format.word); }

  // Returns what quantize must write: the CPU codec's words, and zeros between blocks.
  static std::vector<std::byte> cpu_words(const Format& format, Case& c) {
    const ElementCodec& codec = numerics::element_codec(format.type);
    std::vector<std::uint32_t> words(Case::words_for(c.count, format));
    for_each_block(format, c.count,
                   [&](std::size_t b, std::size_t first, std::size_t elements, std::size_t first_word) {
                     codec.encode(numerics::codec(), c.x->data() + first * codec.size, elements,
                                  static_cast<std::uint8_t>(c.exponents->data()[b]), scale_of(format),
                                  format.order == Order::kBigEndian ? Store::kBigEndian : Store::kWrite,
                                  words.data() + first_word);
                   });
    std::vector<std::byte> bytes(words.size() * 4);
    std::copy_n(reinterpret_cast<const std::byte*>(words.data()), bytes.size(), bytes.data());
    return bytes;
  }

  void encode(const Format& format, std::vector<Case>& list, Rounding rounding, WatchedMemory& memory) {
    std::vector<QuantizeRun> runs;
    for (Case& c : list) {
      const auto* exponents = reinterpret_cast<const std::uint8_t*>(c.exponents->data());
      runs.push_back({c.x->data(), c.count, exponents, c.words->data(), 1000 * runs.size()});
    }
    EncodeJob job;
    ASSERT_EQ(plan(format, runs, rounding, job).text(), Status().text());
    with_encoding(format, rounding, [&](auto form, auto word, auto stochastic) {
      testing::run_encode<typename decltype(form)::type, typename decltype(word)::type, stochastic.value>(
          job, job.runs.blocks(), WatchedAccess{&memory});
      return 0;
    });
  }

  void decode(const Format& format, std::vector<Case>& list, bool keep, WatchedMemory& memory) {
    std::vector<DequantizeRun> runs;
    for (Case& c : list) {
      const auto* exponents = reinterpret_cast<const std::uint8_t*>(c.exponents->data());
      runs.push_back({c.words->data(), c.count, exponents, c.x->data()});
    }
    DecodeJob job;
    ASSERT_EQ(plan(format, runs, keep, job).text(), Status().text());
    with_form_and_word(format, [&](auto form, auto word) {
      testing::run_decode<typename decltype(form)::type, typename decltype(word)::type>(job, WatchedAccess{&memory});
      return 0;
    });
  }
};

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

std::string name_of(const Format& format) {
  return std::string(to_string(format.type)) + " block_size=" + std::to_string(format.block_size) +
         " workers=" + std::to_string(format.workers) + " word=" + std::to_string(int(format.word)) +
         " order=" + std::to_string(int(format.order));
}

TEST_F(Sweep, QuantizesAsTheCpuCodecReadingAndWritingOnce) {
  for (const Format& format : formats()) {
    SCOPED_TRACE(name_of(format));
    std::vector<Case> list = cases(format);
    for (Case& c : list) set_exponents(format, c);
    WatchedMemory memory;
    watch(memory, list);
    encode(format, list, {}, memory);
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
        testing::run_exponents<typename decltype(form)::type>(job, job.runs.blocks() + below(9),
                                                              WatchedAccess{&memory});
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
        testing::run_encode<Form, std::uint32_t, false>(job, job.runs.blocks(), WatchedAccess{&memory});
        testing::run_decode<Form, std::uint32_t>(apply, WatchedAccess{&memory});
        return 0;
      });
      for (std::size_t i = 0; i < list.size(); ++i) {
        ASSERT_EQ(list[i].words->copy(), words[i]);
        ASSERT_EQ(list[i].x->copy(), values[i]);
      }
    }
  }
}

// ---- narrow words and stochastic rounding, compared with their definition: the CPU codec does not have them

std::uint64_t word_at(const Bytes& bytes, const std::byte* data, std::size_t i, std::size_t size, bool big_endian) {
  (void)bytes;
  std::uint64_t word = 0;
  for (std::size_t byte = 0; byte < size; ++byte) {
    word |= std::uint64_t(data[i * size + byte]) << (8 * (big_endian ? size - 1 - byte : byte));
  }
  return word;
}

float value_of(ElementType type, const std::byte* x) {
  if (type == ElementType::kFloat32) {
    float value;
    std::memcpy(&value, x, 4);
    return value;
  }
  std::uint16_t bits;
  std::memcpy(&bits, x, 2);
  return type == ElementType::kFloat16 ? numerics::widen(numerics::Float16{bits})
                                       : numerics::widen(numerics::Bfloat16{bits});
}

std::int64_t reference_word(float x, int exponent, const Format& format, Rounding rounding, std::uint64_t index) {
  if (!std::isfinite(x)) return 0;
  const int bits = 8 * static_cast<int>(format.word),
            log2_workers = static_cast<int>(std::ceil(std::log2(format.workers)));
  const double limit = std::floor((std::ldexp(1.0, bits - 1) - 1) / format.workers);
  const double scaled = std::ldexp(std::fabs(double{x}), bits - 1 - log2_workers - (exponent - 126));
  double rounded = std::nearbyint(scaled);
  if (rounding.stochastic) {
    std::uint64_t z = rounding.seed;  // SplitMix64, step by step
    for (std::uint64_t i = 0; i <= index % 1000; ++i) z += 0x9e3779b97f4a7c15u;
    z += (index - index % 1000) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    const double uniform = std::ldexp(static_cast<double>((z ^ (z >> 31)) >> 32), -32);
    const double fraction = scaled - std::floor(scaled);
    rounded = std::floor(scaled) + (uniform < std::ldexp(std::floor(std::ldexp(fraction, 32)), -32) ? 1 : 0);
  }
  const double word = std::min(rounded, limit);
  return static_cast<std::int64_t>(std::signbit(x) ? -word : word);
}

TEST_F(Sweep, NarrowWordsAndStochasticRoundingFollowTheirDefinition) {
  for (const ElementType type : kOneWordFloats) {
    for (const WireWord word : {WireWord::kInt32, WireWord::kInt16, WireWord::kInt8}) {
      for (const std::uint32_t block_size : {8u, 61u, 256u, 1024u}) {
        for (const std::uint32_t workers : {1u, 3u, 100u}) {
          for (const Order order : {Order::kHost, Order::kBigEndian}) {
            for (const bool stochastic : {false, true}) {
              const Format format{type, block_size, workers, word, order};
              const Rounding rounding{stochastic, random_()};
              SCOPED_TRACE(name_of(format) + (stochastic ? " stochastic" : ""));
              std::vector<Case> list = cases(format);
              for (Case& c : list) set_exponents(format, c);
              WatchedMemory memory;
              watch(memory, list);
              encode(format, list, rounding, memory);
              const auto size = static_cast<std::size_t>(word);
              for (std::size_t r = 0; r < list.size(); ++r) {
                Case& c = list[r];
                for (std::size_t i = 0; i < c.count; ++i) {
                  const float x = value_of(type, c.x->data() + i * numerics::element_codec(type).size);
                  const auto exponent = static_cast<int>(c.exponents->data()[i / block_size]);
                  const std::int64_t expected = reference_word(x, exponent, format, rounding, 1000 * r + i);
                  const std::uint64_t mask = ~std::uint64_t{0} >> (64 - 8 * size);
                  ASSERT_EQ(word_at(*c.words, c.words->data(), i, size, order == Order::kBigEndian),
                            static_cast<std::uint64_t>(expected) & mask)
                      << x << " exponent " << exponent << " element " << i;
                }
                ASSERT_TRUE(memory.accessed(c.x->data(), c.x->size(), 1, 0));
                ASSERT_TRUE(memory.accessed(c.words->data(), c.words->size(), 0, 1));
              }
              WatchedMemory again;
              watch(again, list);
              decode(format, list, false, again);
              for (Case& c : list) {
                for (std::size_t i = 0; i < c.count; ++i) {
                  const std::uint64_t raw = word_at(*c.words, c.words->data(), i, size, order == Order::kBigEndian);
                  const auto sum = static_cast<std::int64_t>(raw << (64 - 8 * size)) >> (64 - 8 * size);
                  const auto exponent = static_cast<int>(c.exponents->data()[i / block_size]);
                  const int power = 8 * static_cast<int>(size) - 1 - static_cast<int>(std::ceil(std::log2(workers))) -
                                    (exponent - 126);
                  const auto wide =
                      static_cast<float>(std::ldexp(static_cast<double>(static_cast<float>(sum)), -power));
                  std::uint64_t expected = number(type, wide, 0), actual = 0;
                  const std::size_t bytes = numerics::element_codec(type).size;
                  std::memcpy(&actual, c.x->data() + i * bytes, bytes);
                  ASSERT_EQ(actual, expected) << sum << " exponent " << exponent;
                }
              }
            }
          }
        }
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
    encode(format, list, {}, memory);
    EXPECT_EQ(memory.widest(), 16u) << to_string(type);
  }
}

TEST(Plan, RefusesImpossibleFormatsAndPointers) {
  float x[8] = {};
  std::uint8_t exponents[1] = {};
  std::uint32_t words[8];
  EncodeJob job;
  const QuantizeRun good[] = {{x, 8, exponents, words, 0}};
  const auto code = [&](const Format& format, std::span<const QuantizeRun> runs, Rounding rounding = {}) {
    return plan(format, runs, rounding, job = {}).code;
  };
  EXPECT_EQ(code({}, good), ErrorCode::kOk);
  EXPECT_EQ(code({.block_size = 7}, good), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({.block_size = 20000}, good), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({.workers = 0}, good), ErrorCode::kTooManyWorkers);
  EXPECT_EQ(code({.workers = 1025}, good), ErrorCode::kTooManyWorkers);
  EXPECT_EQ(code({.workers = 128, .word = WireWord::kInt8}, good), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({.type = ElementType::kInt32, .word = WireWord::kInt16}, good), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({.type = ElementType::kFloat64}, good, {.stochastic = true}), ErrorCode::kInvalidArgument);
  const auto* odd = reinterpret_cast<const std::byte*>(x) + 1;
  const QuantizeRun misaligned[] = {{odd, 4, exponents, words, 0}}, missing[] = {{x, 8, nullptr, words, 0}};
  EXPECT_EQ(code({}, misaligned), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({}, missing), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({.type = ElementType::kInt32}, missing), ErrorCode::kOk);
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
