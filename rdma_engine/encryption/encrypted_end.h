// EncryptedEnd: one end of a job whose packets are encrypted. It encrypts as one sender, and decrypts what all senders
// of the other role have encrypted. Workers and the threads of switches use the same. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "rdma_engine/encryption/encryptor.h"
#include "rdma_engine/encryption/job_key.h"

namespace jaxina::encryption {

class EncryptedEnd {
 public:
  // `peers` is how many senders the other role has. Throws Error(kInvalidArgument) if this host has no libcrypto.
  EncryptedEnd(const JobKey& key, std::uint32_t job, Role own, std::uint16_t sender, std::size_t peers);

  // As Encryptor::encrypt.
  std::size_t encrypt(std::span<const std::uint8_t> packet, std::uint8_t* encrypted) {
    return encryptor_.encrypt(packet, encrypted);
  }

  // Decrypts a packet in place. Nothing if it has no envelope, does not open, is of another job or role, or if the
  // packet in it names another job than the envelope.
  std::optional<std::span<std::uint8_t>> decrypt(std::span<std::uint8_t> packet);

  // Memory that an end takes.
  static std::size_t bytes_for(std::size_t peers) { return (peers + 1) * Decryptor::kBytes; }

 private:
  std::uint32_t job_;
  Role others_;
  Encryptor encryptor_;
  std::vector<Decryptor> decryptors_;  // by sender
};

}  // namespace jaxina::encryption
