// Encryptor and Decryptor: the two sides of one sender's packets. They are sans-IO, and allocate only when a key is
// changed. Not thread-safe: each thread that sends is a sender of its own.
//
// Nonces. A sender numbers its packets from 0 with 64 bits, also those that it sends again, and the number is the
// nonce. No other sender has the same key, so no nonce comes twice under a key.
//
// Keys change after kPacketsPerKey packets: the number's upper bits are the generation of the key. Both sides derive
// the next one from the job's key, so nothing is negotiated.
//
// Replay. A decryptor refuses packets that are older than the previous generation. Younger ones may be replayed, and it
// decrypts them again; what they say is then old or known. This is the slot rule's business (aggregator/slot.h), which
// compares epochs modulo 2^32: a packet of the last two generations is less than 2 kPacketsPerKey packets old, and each
// pass of a slot takes at least one packet, so no epoch in it can look newer than it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "rdma_engine/encryption/cipher.h"
#include "rdma_engine/encryption/envelope.h"

namespace jaxina::encryption {

// With packets of 1 KB, a key encrypts 2^34 blocks of AES, and with the largest packets 2^40. The chance to tell AES
// from random bits is below 2^-60, or 2^-48 (the square of the blocks by 2^129).
inline constexpr std::uint64_t kPacketsPerKey = std::uint64_t{1} << 28;

class Encryptor {
 public:
  // `first` is the number of the first packet, for tests. Throws Error(kInvalidArgument) if this host has no libcrypto.
  Encryptor(const JobKey& key, std::uint32_t job, Role role, std::uint16_t sender, std::uint64_t first = 0);

  // Encrypts `packet` into `encrypted`, which has room for packet.size() + kOverhead bytes. The packet may lie at its
  // place there already, at encrypted + kClearBytes. Returns the size; 0 when no number is left.
  std::size_t encrypt(std::span<const std::uint8_t> packet, std::uint8_t* encrypted);

 private:
  JobKey key_;
  Envelope next_;
  Cipher cipher_;
};

class Decryptor {
 public:
  Decryptor(const JobKey& key, std::uint32_t job, Role role, std::uint16_t sender);

  // Decrypts a packet with this sender's envelope in place. Nothing if it is not what the sender has encrypted, or too
  // old.
  std::optional<std::span<std::uint8_t>> decrypt(std::span<std::uint8_t> encrypted);

  // Memory that a decryptor takes, with OpenSSL's contexts.
  static constexpr std::size_t kBytes = 4096;

 private:
  Cipher cipher_of(std::uint64_t generation) const;
  static bool decrypts(Cipher& cipher, std::uint64_t number, std::span<std::uint8_t> encrypted);

  JobKey key_;
  Envelope sender_;
  std::uint64_t generation_ = 0;  // of the newest packet so far
  Cipher current_;
  std::optional<Cipher> previous_;  // that of the generation before; none before the first
};

}  // namespace jaxina::encryption
