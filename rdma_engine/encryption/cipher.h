// Cipher: AES-128-GCM with one key, in one direction. OpenSSL computes it; its context is made once, and only the nonce
// changes from packet to packet.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "rdma_engine/encryption/job_key.h"

struct evp_cipher_ctx_st;  // OpenSSL's EVP_CIPHER_CTX

namespace jaxina::encryption {

inline constexpr std::size_t kTagBytes = 16;

enum class Direction : std::uint8_t { kEncrypt, kDecrypt };

// What a key is for. No two senders, and no two generations of a sender, have the same.
struct KeyUse {
  std::uint32_t job = 0;
  std::uint8_t role = 0;
  std::uint16_t sender = 0;
  std::uint64_t generation = 0;
};

class Cipher {
 public:
  // Derives the key of this use by HKDF-Expand with SHA-256 (RFC 5869), which also yields a nonce that is XORed with
  // the packets' numbers (as in RFC 8446, section 5.3). Throws Error(kInvalidArgument) if this host has no libcrypto.
  Cipher(Direction direction, const JobKey& key, const KeyUse& use);

  // Encrypts `plain` to `encrypted`, which may be the same place, and writes the tag, which also covers `clear`. No
  // number may come twice.
  void encrypt(std::uint64_t number, std::span<const std::uint8_t> clear, std::span<const std::uint8_t> plain,
               std::uint8_t* encrypted, std::uint8_t* tag);
  // Decrypts `encrypted` in place. Returns false if it, `clear`, the tag or the number is not what was encrypted; its
  // bytes then mean nothing.
  bool decrypt(std::uint64_t number, std::span<const std::uint8_t> clear, std::span<std::uint8_t> encrypted,
               std::uint8_t* tag);

 private:
  static constexpr std::size_t kNonceBytes = 12;
  struct Free {
    void operator()(evp_cipher_ctx_st* context) const;
  };
  std::array<std::uint8_t, kNonceBytes> nonce_for(std::uint64_t number) const;

  std::unique_ptr<evp_cipher_ctx_st, Free> context_;
  std::array<std::uint8_t, kNonceBytes> nonce_{};
};

}  // namespace jaxina::encryption
