#include "rdma_engine/encryption/encryptor.h"

#include <limits>
#include <utility>

namespace jaxina::encryption {
namespace {

KeyUse use_of(const Envelope& envelope, std::uint64_t generation) {
  return {envelope.job, static_cast<std::uint8_t>(envelope.role), envelope.sender, generation};
}

std::uint64_t generation_of(std::uint64_t number) { return number / kPacketsPerKey; }

}  // namespace

Encryptor::Encryptor(const JobKey& key, std::uint32_t job, Role role, std::uint16_t sender, std::uint64_t first)
    : key_(key),
      next_{role, job, sender, first},
      cipher_(Direction::kEncrypt, key, use_of(next_, generation_of(first))) {}

std::size_t Encryptor::encrypt(std::span<const std::uint8_t> packet, std::uint8_t* encrypted) {
  if (next_.number == std::numeric_limits<std::uint64_t>::max()) return 0;  // after 5,800 years at 10^8 packets/s
  write_envelope(next_, encrypted);
  std::uint8_t* const inside = encrypted + kClearBytes;
  cipher_.encrypt(next_.number, {encrypted, kClearBytes}, packet, inside, inside + packet.size());
  if (++next_.number % kPacketsPerKey == 0) {
    cipher_ = Cipher(Direction::kEncrypt, key_, use_of(next_, generation_of(next_.number)));
  }
  return packet.size() + kOverhead;
}

Decryptor::Decryptor(const JobKey& key, std::uint32_t job, Role role, std::uint16_t sender)
    : key_(key), sender_{role, job, sender, 0}, current_(cipher_of(0)) {}

Cipher Decryptor::cipher_of(std::uint64_t generation) const {
  return Cipher(Direction::kDecrypt, key_, use_of(sender_, generation));
}

bool Decryptor::decrypts(Cipher& cipher, std::uint64_t number, std::span<std::uint8_t> encrypted) {
  const std::size_t inside = encrypted.size() - kOverhead;
  return cipher.decrypt(number, encrypted.first(kClearBytes), encrypted.subspan(kClearBytes, inside),
                        encrypted.data() + kClearBytes + inside);
}

std::optional<std::span<std::uint8_t>> Decryptor::decrypt(std::span<std::uint8_t> encrypted) {
  const std::uint64_t number = read_envelope(encrypted).number, generation = generation_of(number);
  const std::span<std::uint8_t> inside = encrypted.subspan(kClearBytes, encrypted.size() - kOverhead);
  if (generation == generation_) return decrypts(current_, number, encrypted) ? std::optional(inside) : std::nullopt;
  if (generation + 1 == generation_) {
    return previous_ && decrypts(*previous_, number, encrypted) ? std::optional(inside) : std::nullopt;
  }
  if (generation < generation_) return std::nullopt;
  // The sender has changed its key, or the packet is forged. Only what decrypts makes us follow.
  Cipher newer = cipher_of(generation);
  if (!decrypts(newer, number, encrypted)) return std::nullopt;
  previous_ = generation == generation_ + 1 ? std::move(current_) : cipher_of(generation - 1);
  current_ = std::move(newer);
  generation_ = generation;
  return inside;
}

}  // namespace jaxina::encryption
