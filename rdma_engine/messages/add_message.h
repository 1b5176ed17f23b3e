// add_message: adds a message of a pass to a sum of messages. Words are added modulo 2^32; of exponents the largest
// stays.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "rdma_engine/base/assert.h"

namespace jaxina::roce {

// The first `words` bytes are big-endian words, a multiple of 4. The rest are exponents. Both have the same size.
inline void add_message(std::span<std::uint8_t> sum, std::span<const std::uint8_t> message, std::size_t words) {
  JAXINA_ASSERT(sum.size() == message.size() && words <= sum.size() && words % 4 == 0);
  const auto swapped = [](std::uint32_t word) {
    return std::endian::native == std::endian::little ? __builtin_bswap32(word) : word;
  };
  for (std::size_t at = 0; at < words; at += 4) {
    std::uint32_t total, word;
    std::memcpy(&total, &sum[at], sizeof(total));
    std::memcpy(&word, &message[at], sizeof(word));
    total = swapped(swapped(total) + swapped(word));
    std::memcpy(&sum[at], &total, sizeof(total));
  }
  for (std::size_t i = words; i < sum.size(); ++i) sum[i] = std::max(sum[i], message[i]);
}

}  // namespace jaxina::roce
