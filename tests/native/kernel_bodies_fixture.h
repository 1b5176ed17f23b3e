// What the tests of the CUDA kernels' bodies share: runs of many lengths in memory of every alignment, values of every
// kind, and a grid that encodes and decodes them thread by thread.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/native/emulated_grid.h"
#include "tests/native/test_seed.h"

namespace jaxina::cuda::testing {

using numerics::ElementCodec;
using numerics::ElementType;
using numerics::Order;
using numerics::Scale;
using numerics::Store;
using numerics::WireWord;

inline constexpr ElementType kTypes[] = {
    ElementType::kFloat32,     ElementType::kFloat16,     ElementType::kBfloat16,    ElementType::kFloat64,
    ElementType::kInt8,        ElementType::kInt16,       ElementType::kInt32,       ElementType::kInt64,
    ElementType::kWideFloat32, ElementType::kWideFloat16, ElementType::kWideBfloat16};
inline constexpr ElementType kOneWordFloats[] = {ElementType::kFloat32, ElementType::kFloat16, ElementType::kBfloat16};
inline constexpr std::byte kUntouched{0xa5};

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
  std::uint64_t seed = 0;  // for stochastic rounding

  // `stored`: the width of the words in memory.
  static std::size_t words_for(std::size_t count, const Format& format, WireWord stored = WireWord::kInt32) {
    const std::size_t per_element = numerics::element_codec(format.type).words,
                      of_block = format.block_size / per_element;
    if (count == 0) return 0;
    const std::size_t full = (count - 1) / of_block;
    const std::size_t together = 4 / static_cast<std::size_t>(stored);  // they fill up 32 bits
    return (full * format.block_size + (count - full * of_block) * per_element + together - 1) / together * together;
  }
  static std::size_t blocks_for(std::size_t count, const Format& format) {
    const std::size_t of_block = format.block_size / numerics::element_codec(format.type).words;
    return (count + of_block - 1) / of_block;
  }
};

class Sweep : public KernelBodiesTest {
 protected:
  // Makes runs of many lengths, in memory of every alignment that the elements allow.
  std::vector<Case> cases(const Format& format) { return cases(format, format.word); }
  std::vector<Case> cases(const Format& format, WireWord stored) {
    const ElementCodec& codec = numerics::element_codec(format.type);
    const std::size_t of_block = format.block_size / codec.words, word = static_cast<std::size_t>(stored);
    std::vector<Case> result;
    const std::size_t counts[] = {
        1, of_block - 1, of_block, 0, of_block + 1, 3 * of_block + of_block / 2, 1 + below(5 * of_block)};
    for (const std::size_t count : counts) {
      const std::size_t x_offset = below(2) ? 0 : codec.size * below(16 / codec.size);
      const std::size_t word_offset = below(2) ? 0 : word * below(16 / word);
      Case c{count, std::make_unique<Bytes>(count * codec.size, x_offset),
             std::make_unique<Bytes>(Case::words_for(count, format, stored) * word, word_offset),
             std::make_unique<Bytes>(Case::blocks_for(count, format), below(5)), random_()};
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

  static Scale scale_of(const Format& format) { return numerics::scale_for(format.workers); }

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

  void encode(const Format& format, std::vector<Case>& list, bool stochastic, WatchedMemory& memory) {
    std::vector<QuantizeRun> runs;
    for (Case& c : list) {
      const auto* exponents = reinterpret_cast<const std::uint8_t*>(c.exponents->data());
      runs.push_back({c.x->data(), c.count, exponents, c.words->data(), c.seed});
    }
    EncodeJob job;
    ASSERT_EQ(plan(format, runs, stochastic, job).text(), Status().text());
    with_encoding(format, stochastic, [&](auto form, auto word, auto at_random) {
      run_encode<typename decltype(form)::type, typename decltype(word)::type, at_random.value>(job, job.runs.blocks(),
                                                                                                WatchedAccess{&memory});
      return 0;
    });
  }

  static std::vector<DequantizeRun> decode_runs(std::vector<Case>& list) {
    std::vector<DequantizeRun> runs;
    for (Case& c : list) {
      const auto* exponents = reinterpret_cast<const std::uint8_t*>(c.exponents->data());
      runs.push_back({c.words->data(), c.count, exponents, c.x->data(), c.seed});
    }
    return runs;
  }

  void decode(const Format& format, std::vector<Case>& list, bool keep, WatchedMemory& memory) {
    DecodeJob job;
    ASSERT_EQ(plan(format, decode_runs(list), keep, job).text(), Status().text());
    with_form_and_word(format, [&](auto form, auto word) {
      run_decode<typename decltype(form)::type, typename decltype(word)::type, false>(job, WatchedAccess{&memory});
      return 0;
    });
  }

  void divide_and_decode(const Format& format, std::vector<Case>& list, Division division, bool keep,
                         WatchedMemory& memory) {
    DecodeJob job;
    ASSERT_EQ(plan(format, decode_runs(list), division, keep, job).text(), Status().text());
    with_narrow_form(format.type, [&](auto form) {
      run_decode<typename decltype(form)::type, std::uint32_t, true>(job, WatchedAccess{&memory});
      return 0;
    });
  }
};

inline std::string name_of(const Format& format) {
  return std::string(to_string(format.type)) + " block_size=" + std::to_string(format.block_size) +
         " workers=" + std::to_string(format.workers) + " word=" + std::to_string(int(format.word)) +
         " order=" + std::to_string(int(format.order));
}

}  // namespace jaxina::cuda::testing
