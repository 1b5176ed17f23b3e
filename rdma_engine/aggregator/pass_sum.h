// PassSum: the payload of one pass while it is summed, and the largest exponent of each block. Aggregators and
// combining switches sum with the same code.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "rdma_engine/numerics/codec.h"
#include "rdma_engine/wire/packet.h"

namespace jaxina {

// Where a pass's payload lies. The memory of `exponents` is padded to a multiple of 4 bytes.
struct PassSum {
  std::uint32_t* words;  // words of 32 bits in host byte order; of other formats, the form in packets
  std::uint8_t* exponents;
  wire::Format format = wire::Format::kInt32;
  std::uint32_t* sums = nullptr;  // the sums of narrow words, of 32 bits each

  // Overwrites what is there with one contribution, whose words are in the form of packets.
  void set(const numerics::Codec& codec, std::span<const std::uint32_t> data, std::span<const std::uint8_t> largest) {
    switch (format) {
      case wire::Format::kInt32: codec.load_big_endian(data.data(), data.size(), words); break;
      case wire::Format::kInt16:
      case wire::Format::kInt8:
        std::copy_n(data.data(), wire::kSeedWords, words);
        unpack(codec, data, false);
        break;
      case wire::Format::kFlags: std::copy(data.begin(), data.end(), words); break;
    }
    std::copy(largest.begin(), largest.end(), exponents);
    std::memset(exponents + largest.size(), 0, wire::padded(largest.size()) - largest.size());
  }
  void add(const numerics::Codec& codec, std::span<const std::uint32_t> data, std::span<const std::uint8_t> largest) {
    switch (format) {
      case wire::Format::kInt32: codec.add_big_endian(data.data(), data.size(), words); break;
      case wire::Format::kInt16:
      case wire::Format::kInt8: unpack(codec, data, true); break;
      case wire::Format::kFlags:
        for (std::size_t i = 0; i < data.size(); ++i) words[i] |= data[i];
        break;
    }
    for (std::size_t i = 0; i < largest.size(); ++i) exponents[i] = std::max(exponents[i], largest[i]);
  }
  // Gives the sum's `count` words the form of packets, in place. `shift`: by how many bits sums of narrow words are
  // divided.
  void finish(const numerics::Codec& codec, std::size_t count, std::uint32_t shift) {
    if (format == wire::Format::kInt32) codec.encode_int32(words, count, numerics::Store::kBigEndian, words);
    if (!wire::is_narrow(format)) return;
    const std::size_t elements = wire::narrow_elements(format, count);
    const std::uint64_t seed = std::uint64_t{from_big_endian(words[0])} << 32 | from_big_endian(words[1]);
    codec.shift(sums, elements, shift, {seed != 0, seed});
    codec.pack(sums, elements, word(), words + wire::kSeedWords);
  }

 private:
  numerics::WireWord word() const {
    return format == wire::Format::kInt16 ? numerics::WireWord::kInt16 : numerics::WireWord::kInt8;
  }
  void unpack(const numerics::Codec& codec, std::span<const std::uint32_t> data, bool add) {
    codec.unpack(data.data() + wire::kSeedWords, wire::narrow_elements(format, data.size()), word(), add, sums);
  }
  static std::uint32_t from_big_endian(std::uint32_t word) {
    return std::endian::native == std::endian::little ? __builtin_bswap32(word) : word;
  }
};

}  // namespace jaxina
