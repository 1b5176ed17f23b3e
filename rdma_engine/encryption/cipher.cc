#include "rdma_engine/encryption/cipher.h"

#include <openssl/core_names.h>
#include <openssl/params.h>

#include <cstring>
#include <string>

#include "rdma_engine/base/assert.h"
#include "rdma_engine/base/narrow.h"
#include "rdma_engine/encryption/libcrypto.h"
#include "rdma_engine/errors.h"

namespace jaxina::encryption {
namespace {

constexpr std::size_t kKeyBytes = 16;

void require(bool done, const char* what) {
  if (!done) throw Error(ErrorCode::kSystem, std::string("OpenSSL failed: ") + what);
}

// Parameters are built by hand, because OpenSSL's constructors are functions of the library.
OSSL_PARAM octets(const char* name, void* bytes, std::size_t size) {
  return {name, OSSL_PARAM_OCTET_STRING, bytes, size, OSSL_PARAM_UNMODIFIED};
}
OSSL_PARAM text(const char* name, const char* value) {
  return {name, OSSL_PARAM_UTF8_STRING, const_cast<char*>(value), std::strlen(value), OSSL_PARAM_UNMODIFIED};
}
constexpr OSSL_PARAM kEnd{nullptr, 0, nullptr, 0, 0};

template <typename T>
std::uint8_t* put(std::uint8_t* to, T value) {
  for (std::size_t i = sizeof(T); i > 0; --i) *to++ = static_cast<std::uint8_t>(value >> 8 * (i - 1));
  return to;
}

// HKDF-Expand with SHA-256. The job's key is random in all its bits, so it needs no HKDF-Extract (RFC 5869, 3.3).
void expand(const JobKey& key, const KeyUse& use, std::span<std::uint8_t> derived) {
  static constexpr char kLabel[] = "jaxina encrypted datagrams 1";
  std::array<std::uint8_t, sizeof(kLabel) + 15> info;
  std::memcpy(info.data(), kLabel, sizeof(kLabel));  // with its zero
  std::uint8_t* end = put(&info[sizeof(kLabel)], use.job);
  end = put(put(put(end, use.role), use.sender), use.generation);
  JAXINA_ASSERT(end == info.data() + info.size());
  JobKey copy = key;
  int mode = EVP_KDF_HKDF_MODE_EXPAND_ONLY;
  const OSSL_PARAM parameters[] = {
      text(OSSL_KDF_PARAM_DIGEST, "SHA256"),
      {OSSL_KDF_PARAM_MODE, OSSL_PARAM_INTEGER, &mode, sizeof(mode), OSSL_PARAM_UNMODIFIED},
      octets(OSSL_KDF_PARAM_KEY, copy.bytes.data(), copy.bytes.size()),
      octets(OSSL_KDF_PARAM_INFO, info.data(), info.size()),
      kEnd};
  const Libcrypto& crypto = libcrypto();
  const std::unique_ptr<EVP_KDF, decltype(crypto.kdf_free)> kdf(crypto.kdf_fetch(nullptr, "HKDF", nullptr),
                                                                crypto.kdf_free);
  require(kdf != nullptr, "no HKDF");
  const std::unique_ptr<EVP_KDF_CTX, decltype(crypto.kdf_context_free)> context(crypto.kdf_context_new(kdf.get()),
                                                                                crypto.kdf_context_free);
  require(context != nullptr && crypto.kdf_derive(context.get(), derived.data(), derived.size(), parameters) > 0,
          "deriving a key");
}

// Fetched once: it takes a lookup in the library's providers.
EVP_CIPHER* aes_128_gcm() {
  static EVP_CIPHER* const cipher = libcrypto().cipher_fetch(nullptr, "AES-128-GCM", nullptr);
  require(cipher != nullptr, "no AES-128-GCM");
  return cipher;
}

}  // namespace

void Cipher::Free::operator()(evp_cipher_ctx_st* context) const { libcrypto().context_free(context); }

Cipher::Cipher(Direction direction, const JobKey& key, const KeyUse& use) : context_(libcrypto().context_new()) {
  std::array<std::uint8_t, kKeyBytes + kNonceBytes> derived;
  expand(key, use, derived);
  std::memcpy(nonce_.data(), &derived[kKeyBytes], kNonceBytes);
  require(context_ != nullptr && libcrypto().cipher_init(context_.get(), aes_128_gcm(), derived.data(), nullptr,
                                                         direction == Direction::kEncrypt ? 1 : 0, nullptr) > 0,
          "setting a key");
}

std::array<std::uint8_t, Cipher::kNonceBytes> Cipher::nonce_for(std::uint64_t number) const {
  std::array<std::uint8_t, kNonceBytes> nonce = nonce_;
  const std::uint64_t swapped = __builtin_bswap64(number);
  std::uint64_t low;
  std::memcpy(&low, &nonce[kNonceBytes - sizeof(low)], sizeof(low));
  low ^= swapped;
  std::memcpy(&nonce[kNonceBytes - sizeof(low)], &low, sizeof(low));
  return nonce;
}

void Cipher::encrypt(std::uint64_t number, std::span<const std::uint8_t> clear, std::span<const std::uint8_t> plain,
                     std::uint8_t* encrypted, std::uint8_t* tag) {
  const Libcrypto& crypto = libcrypto();
  EVP_CIPHER_CTX* const context = context_.get();
  const auto nonce = nonce_for(number);
  int written = 0;
  OSSL_PARAM parameters[] = {octets(OSSL_CIPHER_PARAM_AEAD_TAG, tag, kTagBytes), kEnd};
  // None of these can fail but by a bug.
  JAXINA_ASSERT(crypto.cipher_init(context, nullptr, nullptr, nonce.data(), -1, nullptr) > 0 &&
                crypto.cipher_update(context, nullptr, &written, clear.data(), narrow<int>(clear.size())) > 0 &&
                crypto.cipher_update(context, encrypted, &written, plain.data(), narrow<int>(plain.size())) > 0 &&
                crypto.cipher_final(context, encrypted + plain.size(), &written) > 0 &&
                crypto.get_params(context, parameters) > 0);
}

bool Cipher::decrypt(std::uint64_t number, std::span<const std::uint8_t> clear, std::span<std::uint8_t> encrypted,
                     std::uint8_t* tag) {
  const Libcrypto& crypto = libcrypto();
  EVP_CIPHER_CTX* const context = context_.get();
  const auto nonce = nonce_for(number);
  int written = 0;
  const OSSL_PARAM parameters[] = {octets(OSSL_CIPHER_PARAM_AEAD_TAG, tag, kTagBytes), kEnd};
  JAXINA_ASSERT(
      crypto.cipher_init(context, nullptr, nullptr, nonce.data(), -1, parameters) > 0 &&
      crypto.cipher_update(context, nullptr, &written, clear.data(), narrow<int>(clear.size())) > 0 &&
      crypto.cipher_update(context, encrypted.data(), &written, encrypted.data(), narrow<int>(encrypted.size())) > 0);
  return crypto.cipher_final(context, encrypted.data() + encrypted.size(), &written) > 0;
}

}  // namespace jaxina::encryption
