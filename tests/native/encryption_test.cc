// Tests one sender's packets, without sockets: what an end decrypts, and what it refuses.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "rdma_engine/encryption/encrypted_end.h"
#include "rdma_engine/encryption/libcrypto.h"
#include "tests/native/allocations.h"

namespace jaxina::encryption {
namespace {

using Bytes = std::vector<std::uint8_t>;

constexpr std::uint32_t kJob = 7;
constexpr std::size_t kPeers = 3;

JobKey key_of(std::uint8_t first = 0) {
  JobKey key;
  std::iota(key.bytes.begin(), key.bytes.end(), first);
  return key;
}

// A packet of a job, as wire/packet.h has it.
Bytes packet_of(std::uint32_t job = kJob, std::size_t words = 20) {
  Bytes packet(wire::packet_size(words, 2));
  std::iota(packet.begin(), packet.end(), std::uint8_t{1});
  wire::seal({.job = job, .words = static_cast<std::uint16_t>(words), .exponents = 2}, packet.data(), packet.size());
  return packet;
}

EncryptedEnd worker(std::uint16_t sender, const JobKey& key = key_of(), std::uint32_t job = kJob) {
  return {key, job, Role::kWorker, sender, kPeers};
}
EncryptedEnd aggregator(std::uint16_t sender, const JobKey& key = key_of(), std::uint32_t job = kJob) {
  return {key, job, Role::kAggregator, sender, kPeers};
}

template <typename Sender>
Bytes encrypted_by(Sender& sender, const Bytes& packet) {
  Bytes encrypted(packet.size() + kOverhead);
  EXPECT_EQ(sender.encrypt(packet, encrypted.data()), encrypted.size());
  return encrypted;
}

template <typename Receiver>
bool is_taken(Receiver& receiver, Bytes encrypted) {
  return receiver.decrypt(encrypted).has_value();
}

TEST(Encryption, BothWaysAndInPlace) {
  EncryptedEnd sender = worker(1), receiver = aggregator(2);
  const Bytes packet = packet_of();
  Bytes room(packet.size() + kOverhead);
  std::copy(packet.begin(), packet.end(), room.begin() + kClearBytes);
  ASSERT_EQ(sender.encrypt({room.data() + kClearBytes, packet.size()}, room.data()), room.size());
  const auto update = receiver.decrypt(room);
  ASSERT_TRUE(update);
  EXPECT_EQ(Bytes(update->begin(), update->end()), packet);

  Bytes result = encrypted_by(receiver, packet);
  const auto decrypted = sender.decrypt(result);
  ASSERT_TRUE(decrypted);
  EXPECT_EQ(Bytes(decrypted->begin(), decrypted->end()), packet);
}

// Computed by Python's `cryptography`: HKDFExpand(SHA256) of the label, the job, the role, the sender and the
// generation, and AESGCM with the nonce XOR the number (tests/python/test_encryption.py decrypts so what workers send).
TEST(Encryption, IsWhatAnotherImplementationComputes) {
  Encryptor sender(key_of(), 0x01020304, Role::kWorker, 0x0506, 0x0708090a);
  const Bytes packet{'j', 'a', 'x', 'i', 'n', 'a'};
  const Bytes encrypted = encrypted_by(sender, packet);
  std::string hex;
  for (const std::uint8_t byte : encrypted) {
    constexpr char kDigits[] = "0123456789abcdef";
    hex += {kDigits[byte >> 4], kDigits[byte & 15]};
  }
  EXPECT_EQ(hex, "4a5845010102030405060000000000000708090a6c214491bd5e4c560ffc02f9efe2ebf708cf5b232274");
}

TEST(Encryption, AnyFlippedBitIsRefused) {
  EncryptedEnd sender = worker(1), receiver = aggregator(0);
  const Bytes encrypted = encrypted_by(sender, packet_of());
  for (std::size_t bit = 0; bit < 8 * encrypted.size(); ++bit) {
    Bytes flipped = encrypted;
    flipped[bit / 8] ^= static_cast<std::uint8_t>(1u << bit % 8);
    EXPECT_FALSE(is_taken(receiver, flipped)) << "bit " << bit % 8 << " of byte " << bit / 8;
  }
  EXPECT_TRUE(is_taken(receiver, encrypted));
}

TEST(Encryption, AnyOtherLengthIsRefused) {
  EncryptedEnd sender = worker(1), receiver = aggregator(0);
  Bytes encrypted = encrypted_by(sender, packet_of());
  for (std::size_t size = 0; size < encrypted.size(); ++size) {
    EXPECT_FALSE(is_taken(receiver, Bytes(encrypted.begin(), encrypted.begin() + static_cast<std::ptrdiff_t>(size))));
  }
  encrypted.push_back(0);
  EXPECT_FALSE(is_taken(receiver, encrypted));
}

TEST(Encryption, OnlyTheJobsKeyAndTheOtherRoleDecrypt) {
  EncryptedEnd sender = worker(1);
  const Bytes encrypted = encrypted_by(sender, packet_of());
  EncryptedEnd right = aggregator(0), other_key = aggregator(0, key_of(1)),
               other_job = aggregator(0, key_of(), kJob + 1);
  EXPECT_TRUE(is_taken(right, encrypted));
  EXPECT_FALSE(is_taken(other_key, encrypted));
  EXPECT_FALSE(is_taken(other_job, encrypted));
  EncryptedEnd same_role = worker(1);
  EXPECT_FALSE(is_taken(same_role, encrypted));
  // The same bytes as if they came from elsewhere: the role, the sender and the job are covered by the tag.
  for (const auto& [offset, value] : {std::pair{3, 2}, {9, 0}, {7, kJob + 1}}) {
    Bytes changed = encrypted;
    changed[static_cast<std::size_t>(offset)] = static_cast<std::uint8_t>(value);
    EXPECT_FALSE(is_taken(right, changed) || is_taken(same_role, changed) || is_taken(other_job, changed));
  }
  EncryptedEnd beyond = worker(kPeers);
  EXPECT_FALSE(is_taken(right, encrypted_by(beyond, packet_of())));
}

TEST(Encryption, APacketOfAnotherJobInTheEnvelopeIsRefused) {
  EncryptedEnd sender = worker(1), receiver = aggregator(0);
  EXPECT_FALSE(is_taken(receiver, encrypted_by(sender, packet_of(kJob + 1))));
  EXPECT_FALSE(is_taken(receiver, encrypted_by(sender, Bytes(8))));  // not even a header
}

TEST(Encryption, NoTwoPacketsAreEncryptedAlike) {
  EncryptedEnd one = worker(0), other = worker(1), part = aggregator(0);
  const Bytes packet = packet_of();
  std::vector<Bytes> inside;
  for (EncryptedEnd* end : {&one, &one, &other, &part}) {
    const Bytes encrypted = encrypted_by(*end, packet);
    inside.emplace_back(encrypted.begin() + kClearBytes, encrypted.end());
  }
  for (std::size_t i = 0; i < inside.size(); ++i) {
    EXPECT_NE(Bytes(inside[i].begin(), inside[i].end() - kTagBytes), packet);
    for (std::size_t j = 0; j < i; ++j) EXPECT_NE(inside[i], inside[j]);
  }
}

TEST(Encryption, KeysChangeAndTheSecondLastOnesAreForgotten) {
  Encryptor before(key_of(), kJob, Role::kWorker, 1);
  Encryptor sender(key_of(), kJob, Role::kWorker, 1, kPacketsPerKey - 2);
  Decryptor receiver(key_of(), kJob, Role::kWorker, 1);
  const Bytes packet = packet_of();
  const Bytes first = encrypted_by(before, packet);
  EXPECT_TRUE(is_taken(receiver, first));
  std::vector<Bytes> sent;
  for (int i = 0; i < 4; ++i) sent.push_back(encrypted_by(sender, packet));
  // The packets around the change come in another order, and one comes twice.
  for (const int i : {3, 0, 2, 1, 3}) EXPECT_TRUE(is_taken(receiver, sent[static_cast<std::size_t>(i)])) << i;
  EXPECT_TRUE(is_taken(receiver, first));  // of the previous key: the slot rule knows it

  // A forged packet does not make the receiver forget a key.
  Bytes forged = sent[3];
  forged[12] = 0xff;
  EXPECT_FALSE(is_taken(receiver, forged));
  EXPECT_TRUE(is_taken(receiver, first));

  Encryptor later(key_of(), kJob, Role::kWorker, 1, 2 * kPacketsPerKey);
  EXPECT_TRUE(is_taken(receiver, encrypted_by(later, packet)));
  EXPECT_FALSE(is_taken(receiver, first));
  EXPECT_FALSE(is_taken(receiver, sent[0]));
  EXPECT_TRUE(is_taken(receiver, sent[3]));

  Encryptor much_later(key_of(), kJob, Role::kWorker, 1, 9 * kPacketsPerKey - 1);
  const Bytes last_of_its_key = encrypted_by(much_later, packet);
  EXPECT_TRUE(is_taken(receiver, encrypted_by(much_later, packet)));
  EXPECT_TRUE(is_taken(receiver, last_of_its_key));  // overtaken
  EXPECT_FALSE(is_taken(receiver, sent[3]));
}

TEST(Encryption, TheLastNumberIsNotUsedTwice) {
  constexpr std::uint64_t kLast = std::numeric_limits<std::uint64_t>::max();
  Encryptor sender(key_of(), kJob, Role::kWorker, 1, kLast - 1);
  const Bytes packet = packet_of();
  Bytes room(packet.size() + kOverhead);
  EXPECT_GT(sender.encrypt(packet, room.data()), 0u);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(sender.encrypt(packet, room.data()), 0u);
}

std::uint64_t of_openssl = 0;
void* counted_malloc(std::size_t size, const char*, int) { return ++of_openssl, std::malloc(size); }
void* counted_realloc(void* memory, std::size_t size, const char*, int) {
  return ++of_openssl, std::realloc(memory, size);
}
void counted_free(void* memory, const char*, int) { std::free(memory); }

// Before anything else of OpenSSL runs, so that it accepts these.
const bool counts = [] {
  void* const library = dlopen("libcrypto.so.3", RTLD_NOW | RTLD_LOCAL);
  const auto set = reinterpret_cast<decltype(&CRYPTO_set_mem_functions)>(dlsym(library, "CRYPTO_set_mem_functions"));
  return set(counted_malloc, counted_realloc, counted_free) == 1;
}();

TEST(Encryption, NothingIsAllocatedForAPacket) {
  ASSERT_TRUE(counts);
  EncryptedEnd sender = worker(1), receiver = aggregator(0);
  const Bytes packet = packet_of();
  Bytes room(packet.size() + kOverhead);
  EXPECT_GT(of_openssl, 0u);
  const std::uint64_t before = testing::allocations(), of_openssl_before = of_openssl;
  for (int i = 0; i < 1000; ++i) {
    ASSERT_GT(sender.encrypt(packet, room.data()), 0u);
    ASSERT_TRUE(receiver.decrypt(room));
    ASSERT_FALSE(receiver.decrypt(room));  // its bytes are decrypted already
  }
  EXPECT_EQ(testing::allocations(), before);
  EXPECT_EQ(of_openssl, of_openssl_before);
}

TEST(Encryption, TheMemoryOfAnEndIsNotMoreThanItCounts) {
  const EncryptedEnd first(key_of(), kJob, Role::kWorker, 0, 1);  // with what the library takes once
  const std::uint64_t before = mallinfo2().uordblks;
  const EncryptedEnd end(key_of(), kJob, Role::kAggregator, 0, 100);
  EXPECT_LT(mallinfo2().uordblks - before, EncryptedEnd::bytes_for(100));
}

}  // namespace
}  // namespace jaxina::encryption
