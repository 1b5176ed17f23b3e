// Packets of tests for what handles datagrams: made by hand, and what was sent.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "rdma_engine/datagrams/packet_output.h"
#include "rdma_engine/wire/packet.h"

namespace jaxina::testing {

using Bytes = std::vector<std::uint8_t>;

inline Address address(std::uint8_t host) {
  Address result;
  result.bytes[0] = host;
  result.size = 1;
  return result;
}

struct Sent {
  Address to;
  Bytes bytes;
  wire::Header header;
  std::vector<std::uint32_t> words() const {
    std::vector<std::uint32_t> result;
    for (std::size_t i = 0; i < header.words; ++i) {
      const std::uint8_t* b = &bytes[wire::packet_size(0, header.exponents) + 4 * i];
      result.push_back(static_cast<std::uint32_t>(b[0]) << 24 | b[1] << 16 | b[2] << 8 | b[3]);
    }
    return result;
  }
};

struct Outbox final : PacketOutput {
  void send(const Address& to, std::span<const std::uint8_t> packet) override {
    if (!keep) return;
    Sent one{to, Bytes(packet.begin(), packet.end()), {}};
    EXPECT_EQ(wire::parse(packet, one.header), wire::ParseResult::kOk);
    sent.push_back(std::move(one));
  }
  std::vector<Sent> take() { return std::exchange(sent, {}); }
  std::vector<Sent> sent;
  bool keep = true;
};

// A sealed packet whose words are value, value + 1 and so on.
inline Bytes packet(const wire::Header& header, std::uint32_t value, std::uint8_t exponent = 0) {
  Bytes bytes(wire::packet_size(header.words, header.exponents));
  if (header.exponents > 0) bytes[wire::kHeaderSize] = exponent;
  for (std::size_t i = 0; i < header.words; ++i) {
    const std::uint32_t word = value + static_cast<std::uint32_t>(i);
    for (std::size_t b = 0; b < 4; ++b) {
      bytes.at(wire::packet_size(i, header.exponents) + b) = static_cast<std::uint8_t>(word >> (24 - 8 * b));
    }
  }
  wire::seal(header, bytes.data(), bytes.size());
  return bytes;
}

}  // namespace jaxina::testing
