// The envelope: what an encrypted packet looks like on the wire. All fields are big-endian.
//
//   0      2         3      4     8        10         12       20
//   | magic | version | role | job | sender | reserved | number | a packet of wire/packet.h, encrypted | tag (16) |
//
// The tag covers all of it. The first 20 bytes are in the clear, because they say with which key to open the packet:
// each sender has its own, and numbers its packets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "rdma_engine/encryption/cipher.h"
#include "rdma_engine/wire/packet.h"

namespace jaxina::encryption {

inline constexpr std::uint8_t kVersion = 0x45;  // far from wire::kVersion, that of packets in the clear

// Who encrypts. A packet decrypts only as one of its role, so it cannot be sent back to where it came from.
enum class Role : std::uint8_t {
  kWorker = 1,      // sender: the worker
  kAggregator = 2,  // sender: the part of the slots that it sums (Shard::index)
};

struct EnvelopeBytes {
  std::uint8_t magic[2], version, role, job[4], sender[2], reserved[2], number[8];
};
static_assert(sizeof(EnvelopeBytes) == 20 && alignof(EnvelopeBytes) == 1);

inline constexpr std::size_t kClearBytes = sizeof(EnvelopeBytes);  // a multiple of 4, as packets are aligned
inline constexpr std::size_t kOverhead = kClearBytes + kTagBytes;

struct Envelope {
  Role role = Role::kWorker;
  std::uint32_t job = 0;
  std::uint16_t sender = 0;
  std::uint64_t number = 0;
};

template <typename T, std::size_t N>
void put(std::uint8_t (&field)[N], T value) {
  static_assert(sizeof(T) == N);
  for (std::size_t i = 0; i < N; ++i) field[i] = static_cast<std::uint8_t>(value >> 8 * (N - 1 - i));
}

template <typename T, std::size_t N>
T get(const std::uint8_t (&field)[N]) {
  static_assert(sizeof(T) == N);
  T value = 0;
  for (const std::uint8_t byte : field) value = static_cast<T>(static_cast<std::uint64_t>(value) << 8 | byte);
  return value;
}

// Whether the packet has an envelope. Whether it decrypts is another question.
inline bool has_envelope(std::span<const std::uint8_t> packet) {
  EnvelopeBytes bytes;
  if (packet.size() < kOverhead) return false;
  std::memcpy(&bytes, packet.data(), sizeof(bytes));
  return get<std::uint16_t>(bytes.magic) == wire::kMagic && bytes.version == kVersion;
}

// The fields of a packet that has an envelope.
inline Envelope read_envelope(std::span<const std::uint8_t> packet) {
  EnvelopeBytes bytes;
  std::memcpy(&bytes, packet.data(), sizeof(bytes));
  return {.role = static_cast<Role>(bytes.role),
          .job = get<std::uint32_t>(bytes.job),
          .sender = get<std::uint16_t>(bytes.sender),
          .number = get<std::uint64_t>(bytes.number)};
}

inline void write_envelope(const Envelope& envelope, std::uint8_t* packet) {
  EnvelopeBytes bytes{};
  put(bytes.magic, wire::kMagic);
  bytes.version = kVersion;
  bytes.role = static_cast<std::uint8_t>(envelope.role);
  put(bytes.job, envelope.job);
  put(bytes.sender, envelope.sender);
  put(bytes.number, envelope.number);
  std::memcpy(packet, &bytes, sizeof(bytes));
}

}  // namespace jaxina::encryption
