// What the fuzzers know about passes: which sizes a job admits, and what sums of each format are. None of it comes from
// the engine.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "rdma_engine/shape/job_shape.h"
#include "rdma_engine/wire/packet.h"
#include "tests/fuzz/packets.h"

namespace jaxina::fuzz {

// Elements in a word of 32 bits.
inline std::size_t elements_per_word(wire::Format format) {
  return format == wire::Format::kInt8 ? 4 : format == wire::Format::kInt16 ? 2 : 1;
}

inline bool may_have(const JobShape& shape, const wire::Header& header) {
  const std::size_t k = shape.block_size(), chunk = k * shape.blocks_per_chunk();
  const bool narrow = k % 4 == 0 && !shape.whole_chunks();
  const std::size_t most = narrow ? std::min<std::size_t>(4 * shape.blocks_per_chunk(), 64) : shape.blocks_per_chunk();
  if (header.format == wire::Format::kInt32) {
    return header.words <= chunk && header.exponents <= (header.words == 0 ? most : shape.blocks_per_chunk());
  }
  if (!narrow || header.words > chunk + 2 || header.exponents > most) return false;
  if (header.format == wire::Format::kFlags) return true;
  return header.words >= 2 && (header.words - 2) * elements_per_word(header.format) <= most * k;
}

// The words of a pass of which workers have contributed. Narrow words are 32 bits wide here.
template <std::size_t kMost>
struct WordSum {
  wire::Format format = wire::Format::kInt32;
  std::size_t words = 0;  // of 32 bits, in a packet
  std::uint64_t seed = 0;
  std::array<std::uint32_t, kMost> sums{};

  std::size_t seed_words() const { return wire::is_narrow(format) ? 2 : 0; }
  std::size_t elements() const { return (words - seed_words()) * elements_per_word(format); }

  void begin(const wire::Header& header, const std::uint8_t* bytes) {
    *this = {.format = header.format, .words = header.words};
    if (seed_words() > 0) seed = std::uint64_t{word_at(bytes)} << 32 | word_at(bytes + 4);
  }
  void add(const std::uint8_t* bytes) {
    for (std::size_t i = 0; i < elements(); ++i) {
      if (format == wire::Format::kFlags) sums[i] |= element(bytes, i);
      else sums[i] += element(bytes, i);
    }
  }
  // Whether these are the words of the result for so many workers.
  bool is_sum(const std::uint8_t* bytes, std::uint32_t workers) const {
    if (seed_words() > 0 && seed != (std::uint64_t{word_at(bytes)} << 32 | word_at(bytes + 4))) return false;
    for (std::size_t i = 0; i < elements(); ++i) {
      if (element(bytes, i) != result(i, workers)) return false;
    }
    return true;
  }
  // The element's number of 32 bits.
  std::uint32_t element(const std::uint8_t* bytes, std::size_t index) const {
    const std::size_t size = 4 / elements_per_word(format);
    const std::uint8_t* at = bytes + 4 * seed_words() + size * index;
    if (size == 1) return static_cast<std::uint32_t>(std::int32_t{static_cast<std::int8_t>(at[0])});
    if (size == 2) return static_cast<std::uint32_t>(std::int32_t{static_cast<std::int16_t>(at[0] << 8 | at[1])});
    return word_at(at);
  }
  std::uint32_t result(std::size_t index, std::uint32_t workers) const {
    if (seed_words() == 0) return sums[index];
    std::int64_t divisor = 1;
    while (divisor < workers) divisor *= 2;
    const std::int64_t sum = static_cast<std::int32_t>(sums[index]);
    std::int64_t whole = sum / divisor, rest = sum % divisor;
    if (rest < 0) rest += divisor, --whole;
    const std::int64_t up = seed != 0 ? rest + drawn(index) * divisor / (std::int64_t{1} << 32) >= divisor
                                      : 2 * rest > divisor || (2 * rest == divisor && whole % 2 != 0);
    return static_cast<std::uint32_t>(whole + up);
  }
  // SplitMix64's numbers, one after the other.
  std::int64_t drawn(std::size_t index) const {
    std::uint64_t state = seed, z = 0;
    for (std::size_t i = 0; i <= index; ++i) state += 0x9e3779b97f4a7c15;
    z = (state ^ state >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return static_cast<std::int64_t>((z ^ z >> 31) >> 32);
  }
};

}  // namespace jaxina::fuzz
