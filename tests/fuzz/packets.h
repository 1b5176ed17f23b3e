// What the fuzzers of nodes that take datagrams share.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "rdma_engine/base/address.h"

namespace jaxina::fuzz {

constexpr std::size_t kMaxPacket = 128;

struct Packet {
  std::array<std::uint8_t, kMaxPacket> bytes;
  std::size_t size = 0;
  std::uint8_t from = 0;  // a host
};

inline Address address_of(std::uint8_t host) {
  Address address;
  address.bytes[0] = host;
  address.size = 1;
  return address;
}

inline std::uint32_t word_at(const std::uint8_t* bytes) {
  return static_cast<std::uint32_t>(bytes[0]) << 24 | bytes[1] << 16 | bytes[2] << 8 | bytes[3];
}

}  // namespace jaxina::fuzz
