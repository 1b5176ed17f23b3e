// The kernels' loops for words of 8 and 16 bits. kernel_templates.h has the others, and the rules for such files.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rdma_engine/numerics/scalar_vector.h"
#include "rdma_engine/numerics/stochastic_rounding.h"
#include "rdma_engine/numerics/vector_arithmetic.h"
#include "rdma_engine/numerics/vector_loops.h"
#include "rdma_engine/numerics/wire_words.h"

namespace jaxina::numerics {
namespace {

template <class Wide, class Element>
void quantize_at_random(const void* elements, std::size_t count, Factors factors, std::int32_t limit,
                        std::uint64_t seed, bool add, std::uint32_t* dst) {
  const auto* x = static_cast<const Element*>(elements);
  for_each_vector<Wide>(count, [=](auto vector, std::size_t i) {
    using V = decltype(vector);
    const auto word = quantized_at_random<V>(V::load_float(x + i), factors, limit, V::random_words(seed, i));
    V::store(dst + i, add ? V::add(V::load(dst + i), word) : word);
  });
}

// Packed words in memory. They may alias the 32-bit words that the packet is made of.
template <class Word>
struct Packed;
template <>
struct Packed<std::int8_t> {
  using Stored = std::uint8_t;
  static std::uint32_t read(Stored stored) {
    return static_cast<std::uint32_t>(static_cast<std::int32_t>(static_cast<std::int8_t>(stored)));
  }
  static Stored write(std::uint32_t word) { return static_cast<Stored>(word); }
};
template <>
struct Packed<std::int16_t> {
  using Stored __attribute__((may_alias)) = std::uint16_t;
  static std::uint16_t swapped(std::uint16_t word) { return kHostIsLittleEndian ? __builtin_bswap16(word) : word; }
  static std::uint32_t read(std::uint16_t stored) {
    return static_cast<std::uint32_t>(static_cast<std::int32_t>(static_cast<std::int16_t>(swapped(stored))));
  }
  static std::uint16_t write(std::uint32_t word) { return swapped(static_cast<std::uint16_t>(word)); }
};

// The compiler turns these plain loops into vector code for the file's instruction set.
template <class Word>
void pack_as(const std::uint32_t* __restrict words, std::size_t count, std::uint32_t* packed) {
  if (count == 0) return;
  packed[(count * sizeof(Word) - 1) / sizeof(*packed)] = 0;
  auto* __restrict to = reinterpret_cast<typename Packed<Word>::Stored*>(packed);
  for (std::size_t i = 0; i < count; ++i) to[i] = Packed<Word>::write(words[i]);
}

template <class Word, bool add>
void unpack_as(const std::uint32_t* packed, std::size_t count, std::uint32_t* __restrict words) {
  const auto* __restrict from = reinterpret_cast<const typename Packed<Word>::Stored*>(packed);
  for (std::size_t i = 0; i < count; ++i) words[i] = (add ? words[i] : 0) + Packed<Word>::read(from[i]);
}

// A template, so that every file has its own copy (see kernels.h).
template <class Wide>
void pack(const std::uint32_t* words, std::size_t count, WireWord word, std::uint32_t* packed) {
  word == WireWord::kInt8 ? pack_as<std::int8_t>(words, count, packed) : pack_as<std::int16_t>(words, count, packed);
}

template <class Wide>
void unpack(const std::uint32_t* packed, std::size_t count, WireWord word, bool add, std::uint32_t* words) {
  if (word == WireWord::kInt8) {
    add ? unpack_as<std::int8_t, true>(packed, count, words) : unpack_as<std::int8_t, false>(packed, count, words);
  } else {
    add ? unpack_as<std::int16_t, true>(packed, count, words) : unpack_as<std::int16_t, false>(packed, count, words);
  }
}

template <class Wide>
void shift(std::uint32_t* words, std::size_t count, std::uint32_t bits, Rounding rounding) {
  if (bits == 0) return;
  if (rounding.stochastic) {
    for (std::size_t i = 0; i < count; ++i) {
      words[i] = shifted_at_random(words[i], bits, random_word(rounding.seed, i));
    }
  } else {
    for_each_vector<Wide>(count, [=](auto vector, std::size_t i) {
      using V = decltype(vector);
      V::store(words + i, shifted<V>(V::load(words + i), bits));
    });
  }
}

}  // namespace
}  // namespace jaxina::numerics
