// PassSum: the payload of one pass while it is summed: words in host byte order, and the largest exponent of each
// block. Aggregators and combining switches sum with the same code.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "rdma_engine/numerics/codec.h"
#include "rdma_engine/wire/packet.h"

namespace jaxina {

// Where a pass's payload lies. The memory of `exponents` is padded to a multiple of 4 bytes.
struct PassSum {
  std::uint32_t* words;
  std::uint8_t* exponents;

  // Overwrites what is there with one contribution, whose words are in network byte order.
  void set(const numerics::Codec& codec, std::span<const std::uint32_t> data, std::span<const std::uint8_t> largest) {
    codec.load_big_endian(data.data(), data.size(), words);
    std::copy(largest.begin(), largest.end(), exponents);
    std::memset(exponents + largest.size(), 0, wire::padded(largest.size()) - largest.size());
  }
  void add(const numerics::Codec& codec, std::span<const std::uint32_t> data, std::span<const std::uint8_t> largest) {
    codec.add_big_endian(data.data(), data.size(), words);
    for (std::size_t i = 0; i < largest.size(); ++i) exponents[i] = std::max(exponents[i], largest[i]);
  }
  // Converts the sum's words to network byte order, in place.
  void finish(const numerics::Codec& codec, std::size_t count) {
    codec.encode_int32(words, count, numerics::Store::kBigEndian, words);
  }
};

}  // namespace jaxina
