// Runs the kernels' bodies for narrow words and stochastic rounding on the CPU, thread by thread. They must give the
// bits of the CPU codec: up, down, for sums that are still to be divided, and for packed flags.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/native/kernel_bodies_fixture.h"

namespace jaxina::cuda {
namespace {

using namespace testing;

using Words = std::vector<std::uint32_t>;

constexpr WireWord kNarrow[] = {WireWord::kInt16, WireWord::kInt8};

const numerics::Codec& cpu() { return numerics::codec(); }

Scale scale_up(const Format& format) {
  return format.word == WireWord::kInt32 ? numerics::scale_for(format.workers) : numerics::narrow_scale(format.word, 0);
}

// The bytes of these words in memory. Those that fill up 32 bits are 0.
std::vector<std::byte> stored(const Words& words, WireWord word, Order order) {
  const auto size = static_cast<std::size_t>(word);
  std::vector<std::byte> bytes(4 * numerics::packed_size(words.size(), word));
  for (std::size_t i = 0; i < words.size(); ++i) {
    for (std::size_t b = 0; b < size; ++b) {
      bytes[i * size + b] = static_cast<std::byte>(words[i] >> (8 * (order == Order::kBigEndian ? size - 1 - b : b)));
    }
  }
  return bytes;
}

class NarrowWords : public Sweep {
 protected:
  // The words that the CPU codec encodes, one in 32 bits each.
  static Words encoded(const Format& format, const Case& c, bool stochastic) {
    const ElementCodec& codec = numerics::element_codec(format.type);
    Words words(Case::words_for(c.count, format));
    for_each_block(format, c.count, [&](std::size_t b, std::size_t first, std::size_t elements, std::size_t) {
      const auto exponent = static_cast<std::uint8_t>(c.exponents->data()[b]);
      const std::byte* x = c.x->data() + first * codec.size;
      if (stochastic) {
        codec.encode_at_random(cpu(), x, elements, exponent, scale_up(format), numerics::seed_from(c.seed, first),
                               false, &words[first]);
      } else {
        codec.encode(cpu(), x, elements, exponent, scale_up(format), Store::kWrite, &words[first]);
      }
    });
    return words;
  }

  // What the CPU codec decodes these words to.
  static std::vector<std::byte> decoded(const Format& format, Case& c, const Words& words, bool keep) {
    const ElementCodec& codec = numerics::element_codec(format.type);
    const Scale scale = numerics::narrow_scale(format.word, static_cast<std::int32_t>(format.shift));
    std::vector<std::byte> y = c.x->copy();
    for_each_block(format, c.count, [&](std::size_t b, std::size_t first, std::size_t elements, std::size_t) {
      codec.decode(cpu(), &words[first], elements, static_cast<std::uint8_t>(c.exponents->data()[b]), scale,
                   Order::kHost, keep, y.data() + first * codec.size);
    });
    return y;
  }

  Words random_words(std::size_t count, unsigned bits) {
    Words words(count);
    for (std::uint32_t& word : words) {
      word = static_cast<std::uint32_t>(static_cast<std::int32_t>(random_()) >> (32 - bits + below(bits)));
    }
    return words;
  }

  // Calls body(format) for float types and block sizes of narrow words.
  template <class Body>
  static void for_each_format(Body body) {
    for (const ElementType type : kOneWordFloats) {
      for (const WireWord word : kNarrow) {
        for (const std::uint32_t block_size : {8u, 60u, 256u, 1024u}) {
          for (const Order order : {Order::kHost, Order::kBigEndian}) body(Format{type, block_size, 1, word, order});
        }
      }
    }
  }
};

TEST_F(NarrowWords, AreEncodedAsTheCpuCodecDoes) {
  for (const ElementType type : kOneWordFloats) {
    for (const WireWord word : {WireWord::kInt32, WireWord::kInt16, WireWord::kInt8}) {
      for (const std::uint32_t block_size : {8u, word == WireWord::kInt32 ? 61u : 60u, 256u, 1024u}) {
        for (const Order order : {Order::kHost, Order::kBigEndian}) {
          for (const bool stochastic : {false, true}) {
            // Narrow words have no head-room: they do not depend on the number of workers.
            const Format format{type, block_size, 1 + static_cast<std::uint32_t>(below(1024)), word, order};
            SCOPED_TRACE(name_of(format) + (stochastic ? " stochastic" : ""));
            std::vector<Case> list = cases(format);
            for (Case& c : list) set_exponents(format, c);
            WatchedMemory memory;
            watch(memory, list);
            encode(format, list, stochastic, memory);
            for (const Case& c : list) {
              ASSERT_EQ(c.words->copy(), stored(encoded(format, c, stochastic), word, order)) << c.count;
              ASSERT_TRUE(memory.accessed(c.x->data(), c.x->size(), 1, 0));
              ASSERT_TRUE(memory.accessed(c.words->data(), c.words->size(), 0, 1));
            }
          }
        }
      }
    }
  }
}

TEST_F(NarrowWords, InNetworkOrderAreWhatTheCpuCodecPacks) {
  for (const WireWord word : kNarrow) {
    const Words words = random_words(77, static_cast<unsigned>(numerics::bits_of(word)));
    std::vector<std::byte> packed(4 * numerics::packed_size(words.size(), word), kUntouched);
    cpu().pack(words.data(), words.size(), word, reinterpret_cast<std::uint32_t*>(packed.data()));
    EXPECT_EQ(packed, stored(words, word, Order::kBigEndian));
  }
}

TEST_F(NarrowWords, AreDecodedAsTheCpuCodecDoes) {
  for_each_format([&](Format format) {
    for (const std::uint32_t shift : {0u, 1u, 5u, 20u}) {
      format.shift = shift;
      for (const bool keep : {false, true}) {
        SCOPED_TRACE(name_of(format) + " shift=" + std::to_string(shift) + (keep ? " keeping" : ""));
        std::vector<Case> list = cases(format);
        std::vector<std::vector<std::byte>> expected;
        for (Case& c : list) {
          set_exponents(format, c);
          const Words words =
              random_words(Case::words_for(c.count, format), static_cast<unsigned>(numerics::bits_of(format.word)));
          std::ranges::copy(stored(words, format.word, format.order), c.words->data());
          expected.push_back(decoded(format, c, words, keep));
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
  });
}

TEST_F(NarrowWords, SumsAreDividedAsTheCpuCodecDoes) {
  for_each_format([&](Format format) {
    for (const Division division : {Division{0, false}, {1, false}, {3, true}, {10, false}, {10, true}}) {
      format.shift = division.bits + static_cast<std::uint32_t>(below(3));
      const bool keep = below(2) == 0;
      SCOPED_TRACE(name_of(format) + " bits=" + std::to_string(division.bits) + (division.stochastic ? " random" : ""));
      std::vector<Case> list = cases(format, WireWord::kInt32);
      std::vector<std::vector<std::byte>> expected;
      for (Case& c : list) {
        set_exponents(format, c);
        const auto bits = static_cast<unsigned>(numerics::bits_of(format.word)) + division.bits;
        Words sums = random_words(Case::words_for(c.count, format), bits);
        std::ranges::copy(stored(sums, WireWord::kInt32, format.order), c.words->data());
        cpu().shift(sums.data(), sums.size(), division.bits, {division.stochastic, c.seed});
        expected.push_back(decoded(format, c, sums, keep));
      }
      WatchedMemory memory;
      watch(memory, list);
      divide_and_decode(format, list, division, keep, memory);
      for (std::size_t i = 0; i < list.size(); ++i) {
        ASSERT_EQ(list[i].x->copy(), expected[i]) << list[i].count;
        ASSERT_TRUE(memory.accessed(list[i].words->data(), list[i].words->size(), 1, 0));
        ASSERT_TRUE(memory.accessed(list[i].x->data(), list[i].x->size(), keep ? 1 : 0, 1));
      }
    }
  });
}

// The flags of one block as wire::Format::kFlags has them.
std::vector<std::byte> packed_flags(const Words& flags, std::uint32_t block_size, Order order) {
  Words packed(numerics::packed_flags_size(block_size));
  for (std::size_t i = 0; i < flags.size(); ++i) {
    const std::uint32_t plus = (flags[i] & 0xffff) != 0 ? 1 : 0, minus = (flags[i] >> 16) != 0 ? 2 : 0;
    packed[i / 16] |= (plus | minus) << (2 * (i % 16));
  }
  return stored(packed, WireWord::kInt32, order);
}

TEST_F(NarrowWords, PackedFlagsAreThoseOfTheCpuCodec) {
  for_each_format([&](const Format& format) {
    const ElementCodec& codec = numerics::element_codec(format.type);
    for (const bool clear : {false, true}) {
      SCOPED_TRACE(name_of(format) + (clear ? " clear" : ""));
      std::vector<Case> list = cases(format, WireWord::kInt32);
      std::vector<std::vector<std::byte>> values, words;
      std::vector<FlagRun> runs;
      std::vector<ApplyFlagRun> back;
      for (Case& c : list) {
        values.push_back(c.x->copy());
        words.emplace_back();
        for_each_block(format, c.count, [&](std::size_t, std::size_t first, std::size_t elements, std::size_t) {
          std::byte* y = values.back().data() + first * codec.size;
          Words flags(elements);
          codec.flags(cpu(), y, elements, Store::kWrite, flags.data());
          codec.apply_flags(cpu(), flags.data(), elements, Order::kHost, clear, y);
          std::ranges::copy(packed_flags(flags, format.block_size, format.order), std::back_inserter(words.back()));
        });
        c.words = std::make_unique<Bytes>(words.back().size(), 4 * below(4));
        runs.push_back({c.x->data(), c.count, c.words->data()});
        back.push_back({c.words->data(), c.count, c.x->data()});
      }
      WatchedMemory memory;
      watch(memory, list);
      EncodeJob find;
      DecodeJob apply;
      ASSERT_TRUE(plan(format, runs, find).ok());
      ASSERT_TRUE(plan(format, back, clear, apply).ok());
      with_narrow_form(format.type, [&](auto form) {
        run_packed_flags<typename decltype(form)::type>(find, apply, WatchedAccess{&memory});
        return 0;
      });
      for (std::size_t i = 0; i < list.size(); ++i) {
        ASSERT_EQ(list[i].words->copy(), words[i]) << list[i].count;
        ASSERT_EQ(list[i].x->copy(), values[i]) << list[i].count;
      }
    }
  });
}

TEST_F(NarrowWords, BehindTheSeedOfAMessageMoveInWholeVectors) {
  for (const WireWord word : kNarrow) {
    const Format format{.word = word};
    std::vector<Case> list;
    list.push_back({1024, std::make_unique<Bytes>(4096, 0),
                    std::make_unique<Bytes>(1024 * static_cast<std::size_t>(word), 8), std::make_unique<Bytes>(4, 0)});
    fill(format.type, list[0].x->data(), 1024, 256);
    set_exponents(format, list[0]);
    WatchedMemory memory;
    watch(memory, list);
    encode(format, list, false, memory);
    EXPECT_EQ(memory.widest(), 16u);
  }
}

// ---- the definition itself, so that CPU and GPU cannot be wrong together

std::uint32_t random_number(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t z = seed;  // SplitMix64, step by step
  for (std::uint64_t i = 0; i <= index; ++i) z += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return static_cast<std::uint32_t>((z ^ (z >> 31)) >> 32);
}

TEST_F(NarrowWords, FollowTheirDefinition) {
  for (const WireWord word : kNarrow) {
    for (const bool stochastic : {false, true}) {
      const int bits = numerics::bits_of(word);
      const double limit = std::ldexp(1.0, bits - 1) - 1;
      const Format format{.word = word, .shift = 3};
      std::vector<Case> list = cases(format);
      for (Case& c : list) {
        set_exponents(format, c);
        const Words words = encoded(format, c, stochastic);
        for (std::size_t i = 0; i < c.count; ++i) {
          float x;
          std::memcpy(&x, c.x->data() + 4 * i, 4);
          if (!std::isfinite(x)) x = 0;
          const int power = 125 + bits - static_cast<int>(c.exponents->data()[i / 256]);
          const double scaled = std::ldexp(std::fabs(double{x}), power), whole = std::floor(scaled);
          const double threshold = std::floor(std::ldexp(scaled - whole, 32));
          const bool up = random_number(c.seed, i) < threshold;
          const double rounded = std::min(stochastic ? whole + (up ? 1 : 0) : std::nearbyint(scaled), limit);
          ASSERT_EQ(static_cast<std::int32_t>(words[i]), std::signbit(x) ? -rounded : rounded) << x << " " << power;
        }
        Words sums = random_words(c.count, static_cast<unsigned>(bits) + 3), divided = sums;
        cpu().shift(divided.data(), divided.size(), 3, {stochastic, c.seed});
        for (std::size_t i = 0; i < c.count; ++i) {
          const double sum = static_cast<std::int32_t>(sums[i]), random = random_number(c.seed, i) >> 29;
          const double expected = stochastic ? std::floor((sum + random) / 8) : std::nearbyint(sum / 8);
          ASSERT_EQ(static_cast<std::int32_t>(divided[i]), expected) << sum;
        }
      }
    }
  }
}

}  // namespace
}  // namespace jaxina::cuda
