#include "rdma_engine/encryption/encrypted_end.h"

#include "rdma_engine/base/narrow.h"
#include "rdma_engine/wire/packet.h"

namespace jaxina::encryption {

EncryptedEnd::EncryptedEnd(const JobKey& key, std::uint32_t job, Role own, std::uint16_t sender, std::size_t peers)
    : job_(job), others_(own == Role::kWorker ? Role::kAggregator : Role::kWorker), encryptor_(key, job, own, sender) {
  decryptors_.reserve(peers);
  for (std::size_t peer = 0; peer < peers; ++peer) {
    decryptors_.emplace_back(key, job, others_, narrow<std::uint16_t>(peer));
  }
}

std::optional<std::span<std::uint8_t>> EncryptedEnd::decrypt(std::span<std::uint8_t> packet) {
  if (!has_envelope(packet)) return std::nullopt;
  const Envelope envelope = read_envelope(packet);
  if (envelope.job != job_ || envelope.role != others_ || envelope.sender >= decryptors_.size()) return std::nullopt;
  const std::optional<std::span<std::uint8_t>> decrypted = decryptors_[envelope.sender].decrypt(packet);
  // A worker of this job may know another job's secret, and must not reach it from here.
  return decrypted && wire::job_of(*decrypted) == job_ ? decrypted : std::nullopt;
}

}  // namespace jaxina::encryption
