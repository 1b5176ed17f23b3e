// What the programs that run conformance vectors share: endpoints as addresses, and packets as text.
#pragma once

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rdma_engine/base/address.h"
#include "rdma_engine/datagrams/packet_output.h"
#include "rdma_engine/errors.h"

namespace jaxina::testing {

// The address that stands for an endpoint's name.
inline Address address_of(const std::string& name) {
  Address address;
  if (name.size() > address.bytes.size()) throw Error(ErrorCode::kInvalidArgument, "the endpoint's name is too long");
  std::memcpy(address.bytes.data(), name.data(), name.size());
  address.size = static_cast<std::uint8_t>(name.size());
  return address;
}

inline std::vector<std::uint8_t> from_hex(const std::string& text) {
  std::vector<std::uint8_t> bytes(text.size() / 2);
  for (std::size_t i = 0; i < bytes.size(); ++i) std::from_chars(&text[2 * i], &text[2 * i] + 2, bytes[i], 16);
  return bytes;
}

struct Printer final : PacketOutput {
  void send(const Address& to, std::span<const std::uint8_t> packet) override {
    const std::string_view name(reinterpret_cast<const char*>(to.bytes.data()), to.size);
    std::printf("send %s ", name.empty() ? "nowhere" : std::string(name).c_str());
    for (const std::uint8_t byte : packet) std::printf("%02x", byte);
    std::printf("\n");
  }
};

}  // namespace jaxina::testing
