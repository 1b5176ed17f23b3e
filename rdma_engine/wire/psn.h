// Arithmetic of packet sequence numbers (PSN), which have 24 bits and wrap.
#pragma once

#include <cstdint>

#include "rdma_engine/wire/roce.h"

namespace jaxina::roce {

// Half of the numbers count as later than a given one, the other half as earlier.
inline constexpr std::int32_t kHalfOfPsns = 1 << 23;

constexpr std::uint32_t psn_after(std::uint32_t psn, std::uint64_t packets) {
  return static_cast<std::uint32_t>((psn + packets) & kMask24);
}

// How far `to` is behind `from`: in [-2^23, 2^23), negative if it is earlier.
constexpr std::int32_t psn_distance(std::uint32_t from, std::uint32_t to) {
  const auto difference = static_cast<std::int32_t>((to - from) & kMask24);
  return difference < kHalfOfPsns ? difference : difference - 2 * kHalfOfPsns;
}

}  // namespace jaxina::roce
